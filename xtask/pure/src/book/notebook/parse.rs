//! Reading NOTEBOOK.md, strictly: anything but entries in their fixed form is an error that names the line and the entry.

use super::{Entry, Fields, Notebook};
use anyhow::{Context, bail, ensure};
use schema::digest::Growing;
use schema::{Digest, ExitCode};
use std::collections::BTreeSet;
use words::failure::fail;

/// Reads a notebook and checks every chain line.
///
/// # Errors
/// When a chain line does not match the bytes before it, an entry does not have the fixed form, or an id is used twice; the
/// message names the entry and the line.
pub fn parse(text: &str) -> anyhow::Result<Notebook> {
    let mut reader = Reader { text, offset: 0, line: 0, growing: Growing::default(), hashed: 0 };
    let mut notebook = Notebook { entries: Vec::new(), head: Digest::of(text) };
    let mut ids = BTreeSet::new();
    while let Some(heading) = reader.heading(notebook.entries.is_empty()).map_err(|e| broken(&reader, "", &e))? {
        let id = heading.split([' ', ':']).nth(1).unwrap_or(heading);
        let entry = reader.entry(heading, &notebook, &mut ids).map_err(|e| broken(&reader, id, &e))?;
        notebook.head = entry.chain;
        notebook.entries.push(entry);
    }
    Ok(notebook)
}

fn broken(reader: &Reader, id: &str, error: &anyhow::Error) -> anyhow::Error {
    let entry = if id.is_empty() { String::new() } else { format!(", entry {id}") };
    let message = format!("NOTEBOOK.md line {}{entry}: {error:#}", reader.line);
    fail(ExitCode::Integrity, message, "git log -p NOTEBOOK.md")
}

/// The text, and how far it has been read.
struct Reader<'a> {
    text: &'a str,
    /// Bytes read.
    offset: usize,
    /// Lines read, so the number of the line read last.
    line: usize,
    /// Digest of the text up to `hashed`, so that many entries cost no more than their bytes.
    growing: Growing,
    hashed: usize,
}

impl<'a> Reader<'a> {
    /// The next line without its line break, which must be there: a file that ends without one was cut off.
    fn next(&mut self) -> anyhow::Result<Option<&'a str>> {
        let rest = &self.text[self.offset..];
        if rest.is_empty() {
            return Ok(None);
        }
        self.line += 1;
        let end = rest.find('\n').context("the last line has no line break, so the file was cut off")?;
        self.offset += end + 1;
        Ok(Some(&rest[..end]))
    }

    /// The text of the next `## ` line, or nothing at the end. Before the first entry any prose may stand, between
    /// entries only blank lines.
    fn heading(&mut self, in_preamble: bool) -> anyhow::Result<Option<&'a str>> {
        while let Some(line) = self.next()? {
            if let Some(heading) = line.strip_prefix("## ") {
                return Ok(Some(heading));
            }
            ensure!(!line.starts_with("chain:"), "a chain line without an entry");
            ensure!(in_preamble || line.is_empty(), "text between a chain line and the next entry: {line:?}");
        }
        Ok(None)
    }

    fn entry(&mut self, heading: &'a str, before: &Notebook, ids: &mut BTreeSet<&'a str>) -> anyhow::Result<Entry> {
        let (date, id, title) = split_heading(heading)?;
        ensure!(ids.insert(id), "the id {id} is used twice");
        let prose = self.until("```toml", "a fenced toml block")?;
        let block = self.until("```", "the end of the toml block")?;
        let fields: Fields = toml::from_str(block).context("failed to read its toml block")?;
        fields.check()?;
        if let Some(about) = &fields.about {
            ensure!(before.entry(about).is_some(), "it is about {about}, and there is no such earlier entry");
        }
        let chain = self.chain()?;
        let [date, id, title, prose] = [date, id, title, prose.trim()].map(str::to_owned);
        Ok(Entry { date, id, title, prose, fields, chain })
    }

    /// All text up to the line `end`, which is read as well.
    fn until(&mut self, end: &str, what: &str) -> anyhow::Result<&'a str> {
        let start = self.offset;
        loop {
            let line_start = self.offset;
            let Some(line) = self.next()? else { bail!("the file ends before {what}") };
            if line == end {
                return Ok(&self.text[start..line_start]);
            }
            let stray = ["## ", "chain:", "```"].iter().any(|mark| line.starts_with(mark));
            ensure!(!stray, "{line:?} where {what} was expected");
        }
    }

    /// The chain line, which must match the bytes before it.
    fn chain(&mut self) -> anyhow::Result<Digest> {
        loop {
            let before = self.offset;
            match self.next()? {
                None => bail!("the file ends before its chain line"),
                Some("") => {}
                Some(line) => {
                    let said = line.strip_prefix("chain: ").with_context(|| format!("{line:?} is no chain line"))?;
                    let said: Digest = said.parse()?;
                    let found = self.growing.add(&self.text.as_bytes()[self.hashed..before]);
                    self.hashed = before;
                    ensure!(said == found, "the chain is broken: the bytes before this line have digest {found}");
                    return Ok(said);
                }
            }
        }
    }
}

/// `YYYY-MM-DD ID: title`.
fn split_heading(heading: &str) -> anyhow::Result<(&str, &str, &str)> {
    let parts = heading.split_once(": ").and_then(|(left, title)| Some((left.split_once(' ')?, title)));
    let ((date, id), title) = parts.with_context(|| format!("{heading:?} is not `YYYY-MM-DD ID: title`"))?;
    ensure!(is_date(date), "{date:?} is not a date (YYYY-MM-DD)");
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    ensure!(!id.is_empty() && id.chars().all(plain), "{id:?} is not an id (letters, digits and hyphens)");
    ensure!(!title.trim().is_empty(), "it has no title");
    Ok((date, id, title))
}

fn is_date(text: &str) -> bool {
    let digit_or_hyphen = |(i, b): (usize, u8)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(digit_or_hyphen)
}
