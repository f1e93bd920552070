//! A Rust file as the tokens that count: no comments, no doc comments, no trailing commas, no items under `#[cfg(test)]`.

use anyhow::Result;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use schema::Digest;
use std::collections::BTreeSet;
use syn::parse::{ParseStream, Parser as _};
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, File, Item};

/// A parsed file, without its tests.
#[derive(Clone)]
pub(super) struct Source(File);

/// A module whose body is another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Module {
    /// Its name.
    pub(super) name: String,
    /// The modules with a body that it is declared in, outermost first.
    pub(super) within: Vec<String>,
}

impl Source {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut file = syn::parse_file(text)?;
        WithoutTests.visit_file_mut(&mut file);
        Ok(Self(file))
    }

    /// The digest of its tokens.
    pub(super) fn digest(&self) -> Digest {
        let mut text = String::new();
        write(self.0.to_token_stream(), &mut text);
        Digest::of(text)
    }

    /// The modules that it declares and leaves to other files.
    pub(super) fn modules(&self) -> Vec<Module> {
        let mut found = Vec::new();
        modules(&self.0.items, &mut Vec::new(), &mut found);
        found
    }

    /// The same without the declarations of some modules.
    pub(super) fn without_modules(&self, names: &BTreeSet<String>) -> Self {
        let mut file = self.0.clone();
        file.items.retain(|item| !matches!(item, Item::Mod(module) if names.contains(&module.ident.to_string())));
        Self(file)
    }

    /// Every word that follows `start::` directly, in a group behind it too.
    pub(super) fn paths_into(&self, start: &str) -> BTreeSet<String> {
        let is_comma = |token: &TokenTree| is_punct(token, ',');
        self.collect(|tokens, found| match tokens {
            [TokenTree::Ident(word), mark @ ..] if word == start && is_path_mark(mark) => match mark.get(2) {
                Some(TokenTree::Group(group)) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    let firsts = inner.split(is_comma).filter_map(|part| part.first());
                    found.extend(firsts.map(ToString::to_string));
                }
                next => found.extend(next.map(ToString::to_string)),
            },
            _ => {}
        })
    }

    /// Every text in quotes, outside of tests and of what is said about an item.
    pub(super) fn literals(&self) -> BTreeSet<String> {
        self.collect(|tokens, found| {
            if let [TokenTree::Literal(literal), ..] = tokens {
                found.extend(syn::parse_str::<syn::LitStr>(&literal.to_string()).map(|it| it.value()));
            }
        })
    }

    /// Every word that something is looked up in: what stands before a `::`.
    pub(super) fn first_words(&self) -> BTreeSet<String> {
        self.collect(|tokens, found| match tokens {
            [TokenTree::Ident(word), mark @ ..] if is_path_mark(mark) => drop(found.insert(word.to_string())),
            _ => {}
        })
    }

    /// What `see` finds in the tokens that begin at each place, inside groups too. Doc comments are passed over.
    fn collect(&self, see: impl Fn(&[TokenTree], &mut BTreeSet<String>)) -> BTreeSet<String> {
        let (mut found, mut streams) = (BTreeSet::new(), vec![self.0.to_token_stream()]);
        while let Some(stream) = streams.pop() {
            let tokens: Vec<TokenTree> = stream.into_iter().collect();
            for (at, token) in tokens.iter().enumerate() {
                see(&tokens[at..], &mut found);
                match token {
                    TokenTree::Group(group) if !is_doc(token) || at == 0 => streams.push(group.stream()),
                    _ => {}
                }
            }
        }
        found
    }
}

fn modules(items: &[Item], within: &mut Vec<String>, found: &mut Vec<Module>) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        match &module.content {
            None => found.push(Module { name, within: within.clone() }),
            Some((_, items)) => {
                within.push(name);
                modules(items, within, found);
                within.pop();
            }
        }
    }
}

/// Removes what is compiled for tests only.
struct WithoutTests;

impl VisitMut for WithoutTests {
    fn visit_file_mut(&mut self, file: &mut File) {
        file.items.retain(is_kept);
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(is_kept);
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, block: &mut syn::ItemImpl) {
        block.items.retain(is_kept);
        visit_mut::visit_item_impl_mut(self, block);
    }

    fn visit_item_trait_mut(&mut self, block: &mut syn::ItemTrait) {
        block.items.retain(is_kept);
        visit_mut::visit_item_trait_mut(self, block);
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(is_kept);
        visit_mut::visit_block_mut(self, block);
    }
}

/// Whether an item or a statement is compiled outside of tests too, by the attributes that it begins with.
fn is_kept(item: &impl ToTokens) -> bool {
    let attributes = |input: ParseStream<'_>| {
        let attributes = input.call(Attribute::parse_outer)?;
        input.parse::<TokenStream>().map(|_| attributes)
    };
    !attributes.parse2(item.to_token_stream()).is_ok_and(|attributes| attributes.iter().any(is_test))
}

/// Exactly `#[cfg(test)]`; any other condition counts as code.
fn is_test(attribute: &Attribute) -> bool {
    let is_cfg = attribute.path().is_ident("cfg");
    is_cfg && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
}

/// Writes tokens one after the other; what cannot be told apart without its spacing keeps it.
fn write(tokens: TokenStream, text: &mut String) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                // An inner attribute has a `!` before its brackets.
                let mark = tokens.next_if(|next| is_punct(next, '!'));
                if tokens.next_if(is_doc).is_none() {
                    text.push_str(if mark.is_some() { "#! " } else { "# " });
                }
            }
            TokenTree::Punct(punct) => {
                let joint = punct.spacing() == proc_macro2::Spacing::Joint;
                text.push(punct.as_char());
                if !(joint && matches!(tokens.peek(), Some(TokenTree::Punct(_)))) {
                    text.push(' ');
                }
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("( ", ") "),
                    Delimiter::Brace => ("{ ", "} "),
                    Delimiter::Bracket => ("[ ", "] "),
                    Delimiter::None => ("", ""),
                };
                text.push_str(open);
                write(without_last_comma(&group), text);
                text.push_str(close);
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) => {
                text.push_str(&token.to_string());
                text.push(' ');
            }
        }
    }
}

fn is_doc(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket && matches!(first, Some(TokenTree::Ident(word)) if word == "doc")
}

/// A list broken over lines ends in a comma, and means the same. The only comma of a pair of parentheses makes a tuple.
fn without_last_comma(group: &Group) -> TokenStream {
    let is_comma = |token: &TokenTree| is_punct(token, ',');
    let mut tokens: Vec<TokenTree> = group.stream().into_iter().collect();
    let commas = tokens.iter().filter(|token| is_comma(token)).count();
    let makes_a_tuple = group.delimiter() == Delimiter::Parenthesis && commas == 1;
    if !makes_a_tuple && tokens.last().is_some_and(is_comma) {
        tokens.pop();
    }
    tokens.into_iter().collect()
}

fn is_punct(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

fn is_path_mark(tokens: &[TokenTree]) -> bool {
    tokens.len() >= 2 && tokens[..2].iter().all(|token| is_punct(token, ':'))
}
