//! Finds the mutants of one source file: places, and what stands there instead. It writes nothing.

use proc_macro2::Span;
use std::ops::Range;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    BinOp, Expr, ExprBinary, ExprLit, ExprUnary, ImplItemFn, Item, ItemConst, ItemFn, ItemImpl, ItemMod, ItemStatic,
    Lit, Macro, Pat, ReturnType, Signature, Token, Type, UnOp,
};

/// What is shorter than this many bytes is named together with its line.
const SHORT: usize = 8;

/// A place in a file and everything that can stand there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Bytes of the original; empty for the start of a function's body.
    pub(crate) range: Range<usize>,
    /// Line, from 1.
    pub(crate) line: usize,
    /// The function it lies in.
    pub(crate) function: String,
    /// What stands there; empty for a function's body.
    pub(crate) original: String,
    /// The line it stands in, which tells one literal from another.
    pub(crate) context: String,
    /// What can stand there instead; for a function's body, what it returns at once.
    pub(crate) instead: Vec<String>,
    /// Whether it is the start of a function's body.
    pub(crate) body: bool,
}

impl Place {
    /// A mutant's name: it says what is changed and where, and holds no line number, so that it outlives edits elsewhere.
    pub(crate) fn name(&self, file: &str, instead: &str) -> String {
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.body {
            format!("{file}: {} returns {}", self.function, flat(instead))
        } else {
            let context =
                if self.original.len() < SHORT { format!(" in {}", flat(&self.context)) } else { String::new() };
            format!("{file}: {}: {} -> {}{context}", self.function, flat(&self.original), flat(instead))
        }
    }
}

/// Every place of `text`, outer before inner.
///
/// # Errors
/// When it is not Rust.
pub(crate) fn places(text: &str) -> syn::Result<Vec<Place>> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder { text, places: Vec::new(), function: String::new(), owner: String::new() };
    finder.visit_file(&file);
    Ok(finder.places)
}

struct Finder<'text> {
    text: &'text str,
    places: Vec<Place>,
    function: String,
    /// The type whose `impl` is being read, with `::`.
    owner: String,
}

impl Finder<'_> {
    fn slice(&self, span: Span) -> String {
        self.text[span.byte_range()].to_owned()
    }

    fn add(&mut self, span: Span, instead: Vec<String>) {
        if instead.is_empty() {
            return;
        }
        self.places.push(Place {
            range: span.byte_range(),
            line: span.start().line,
            function: self.function.clone(),
            original: self.slice(span),
            context: self.text.lines().nth(span.start().line - 1).unwrap_or_default().to_owned(),
            instead,
            body: false,
        });
    }

    fn function(&mut self, signature: &Signature, body: &syn::Block, inside: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.function, format!("{}{}", self.owner, signature.ident));
        if signature.constness.is_none() {
            let at = body.brace_token.span.open().byte_range().end;
            let (line, function) = (signature.ident.span().start().line, self.function.clone());
            let instead = match &signature.output {
                ReturnType::Default => vec!["()".to_owned()],
                ReturnType::Type(_, of) => values(of),
            };
            let (original, context) = (String::new(), String::new());
            self.places.push(Place { range: at..at, line, function, original, context, instead, body: true });
            inside(self);
        }
        self.function = outer;
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        visit::visit_item_mod(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig, &item.block, |finder| finder.visit_block(&item.block));
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let owner = item.self_ty.as_ref();
        self.owner = if let Type::Path(path) = owner {
            path.path.segments.last().map_or_else(String::new, |last| format!("{}::", last.ident))
        } else {
            String::new()
        };
        visit::visit_item_impl(self, item);
        self.owner.clear();
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig, &item.block, |finder| finder.visit_block(&item.block));
    }

    // What the compiler must know beforehand cannot be chosen at run time.
    fn visit_item_const(&mut self, _: &'ast ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast ItemStatic) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        let (left, right) = (self.slice(binary.left.span()), self.slice(binary.right.span()));
        if !holds_let(&binary.left) && !holds_let(&binary.right) {
            let instead = swapped(&binary.op).iter().map(|op| format!("{left} {op} {right}")).collect();
            self.add(binary.span(), instead);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        if matches!(unary.op, UnOp::Not(_)) {
            let instead = vec![self.slice(unary.expr.span())];
            self.add(unary.span(), instead);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_lit(&mut self, literal: &'ast ExprLit) {
        if let Lit::Int(int) = &literal.lit
            && let Ok(value) = int.base10_parse::<u64>()
        {
            let instead = vec![format!("{}{}", value + 1, int.suffix())];
            self.add(int.span(), instead);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard
            && !holds_let(guard)
        {
            self.add(guard.span(), vec!["true".to_owned(), "false".to_owned()]);
        }
        visit::visit_arm(self, arm);
    }

    /// Of macros, only what `ensure!` requires is looked at.
    fn visit_macro(&mut self, called: &'ast Macro) {
        if called.path.segments.last().is_some_and(|last| last.ident == "ensure")
            && let Ok(arguments) = called.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated)
            && let Some(condition) = arguments.first()
        {
            self.add(condition.span(), vec!["true".to_owned()]);
            self.visit_expr(condition);
        }
    }
}

fn for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok_and(|of| of == "test")
    })
}

/// Whether a `let` stands in this condition: such a chain cannot be wrapped.
fn holds_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => holds_let(&binary.left) || holds_let(&binary.right),
        _ => false,
    }
}

fn swapped(op: &BinOp) -> &'static [&'static str] {
    match op {
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["<=", ">"],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<"],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["+"],
        BinOp::Div(_) => &["*"],
        BinOp::BitAnd(_) => &["|"],
        BinOp::BitOr(_) => &["&"],
        BinOp::Shr(_) => &["<<"],
        BinOp::Shl(_) => &[">>"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        _ => &[],
    }
}

/// Plausible values of a type. One that does not fit does not compile, and is dropped.
fn values(of: &Type) -> Vec<String> {
    let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    match of {
        Type::Reference(reference) => match reference.elem.as_ref() {
            Type::Path(path) if path.path.is_ident("str") => owned(&["\"\"", "\"xyzzy\""]),
            _ => Vec::new(),
        },
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Vec::new() };
            let inner = || match &last.arguments {
                syn::PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
                    Some(syn::GenericArgument::Type(of)) => values(of),
                    _ => Vec::new(),
                },
                _ => Vec::new(),
            };
            let wrapped = |open: &str, close: &str| inner().iter().map(|v| format!("{open}{v}{close}")).collect();
            match last.ident.to_string().as_str() {
                "bool" => owned(&["true", "false"]),
                "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => owned(&["0", "1"]),
                "f64" => owned(&["0.0", "1.0"]),
                "String" => owned(&["String::new()", "\"xyzzy\".to_owned()"]),
                "Option" => {
                    let mut all: Vec<String> = wrapped("Some(", ")");
                    all.push("None".to_owned());
                    all
                }
                "Result" => wrapped("Ok(", ")"),
                "Vec" => {
                    let mut all: Vec<String> = wrapped("vec![", "]");
                    all.push("Vec::new()".to_owned());
                    all
                }
                _ => owned(&["Default::default()"]),
            }
        }
        Type::Tuple(tuple) if tuple.elems.is_empty() => owned(&["()"]),
        Type::Tuple(_) => owned(&["Default::default()"]),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of all mutants of a source, in order.
    fn check(text: &str, expected: &[&str]) {
        let found = places(text).unwrap();
        let names = found.iter().flat_map(|place| place.instead.iter().map(|instead| place.name("f", instead)));
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn operators_and_literals() {
        check(
            "fn f(a: u32) {\n  g(a + 1 < 3);\n}",
            &[
                "f: f returns ()",
                "f: f: a + 1 < 3 -> a + 1 <= 3",
                "f: f: a + 1 < 3 -> a + 1 > 3",
                "f: f: a + 1 -> a - 1 in g(a + 1 < 3);",
                "f: f: 1 -> 2 in g(a + 1 < 3);",
                "f: f: 3 -> 4 in g(a + 1 < 3);",
            ],
        );
        check(
            "impl A<u8> { fn f(&self) -> bool { !self.x } }",
            &[
                "f: A::f returns true",
                "f: A::f returns false",
                "f: A::f: !self.x -> self.x in impl A<u8> { fn f(&self) -> bool { !self.x } }",
            ],
        );
    }

    #[test]
    fn guards_conditions_and_values() {
        check(
            "fn f() -> Result<Option<String>> { match x {\ny if y => (),\n _ => ensure!(a == b, \"{}\", 1 + 2) } }",
            &[
                "f: f returns Ok(Some(String::new()))",
                "f: f returns Ok(Some(\"xyzzy\".to_owned()))",
                "f: f returns Ok(None)",
                "f: f: y -> true in y if y => (),",
                "f: f: y -> false in y if y => (),",
                "f: f: a == b -> true in _ => ensure!(a == b, \"{}\", 1 + 2) } }",
                "f: f: a == b -> a != b in _ => ensure!(a == b, \"{}\", 1 + 2) } }",
            ],
        );
    }

    #[test]
    fn what_cannot_be_chosen_at_run_time_is_left_alone() {
        check("const A: u32 = 1 + 2; static B: [u8; 3] = [0; 3]; const fn f() -> u32 { 1 }", &[]);
        check("#[cfg(test)] mod tests { fn f() {} } #[test] fn g() {}", &[]);
        check("fn f() { if let Some(x) = y && g(x) {} }", &["f: f returns ()"]);
        check("fn f() { let 3 = x else { return }; }", &["f: f returns ()"]);
    }
}
