//! A page of Markdown as its reader sees it: the words of each block, by a CommonMark parser with GitHub's tables and
//! strikethrough. What may be said in the words is not decided here.

use super::Wrong;
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};
use std::collections::BTreeSet;
use std::ops::Range;

/// What is read of a page.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The words of each block: a paragraph, a heading, a cell of a table.
    pub(super) blocks: Vec<Block>,
    /// The lines of table rows that fill a column `source`.
    pub(super) sourced: BTreeSet<usize>,
    /// HTML, whose words are not read.
    pub(super) wrong: Vec<Wrong>,
}

/// The words of a block, without markup and with one blank for white space.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) text: String,
    /// Where in the text code stands.
    code: Vec<Range<usize>>,
    /// Where in the text a line of the page goes on, and its number.
    lines: Vec<(usize, usize)>,
}

impl Block {
    fn push(&mut self, words: &str, line: usize) {
        self.lines.push((self.text.len(), line));
        for c in words.chars().map(|c| if c.is_whitespace() { ' ' } else { c }) {
            if c != ' ' || !self.text.ends_with(' ') {
                self.text.push(c);
            }
        }
    }

    /// Whether all of a part of the text is code.
    pub(super) fn is_code(&self, part: &Range<usize>) -> bool {
        self.code.iter().any(|code| code.start <= part.start && part.end <= code.end)
    }

    /// The line of the page on which a place of the text stands.
    pub(super) fn line(&self, at: usize) -> usize {
        self.lines.iter().rev().find(|(from, _)| *from <= at).map_or(1, |(_, line)| *line)
    }
}

/// The number of the line on which a place of a text stands.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn events(text: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).into_offset_iter()
}

/// Where inline code and blocks of code stand.
pub(super) fn code(text: &str) -> Vec<Range<usize>> {
    let is_code = |event: &Event<'_>| matches!(event, Event::Code(_) | Event::Start(Tag::CodeBlock(_)));
    events(text).filter(|(event, _)| is_code(event)).map(|(_, range)| range).collect()
}

/// Where the links of a page lead.
#[must_use]
pub fn links(text: &str) -> Vec<String> {
    let target = |(event, _): (Event<'_>, _)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
        _ => None,
    };
    events(text).filter_map(target).collect()
}

/// Reads a page.
pub(super) fn read(text: &str) -> Page {
    let (mut page, mut block) = (Page::default(), Block::default());
    // In a block of code or an address, which are not checked.
    let mut unread = false;
    let (mut column, mut source) = (0, None);
    for (event, range) in events(text) {
        let line = line_of(text, range.start);
        match event {
            Event::Text(_) | Event::Html(_) if unread => {}
            // Unpaired marks of emphasis are skipped too.
            Event::Text(words) => block.push(&words.replace(['*', '~'], ""), line),
            Event::Code(words) => {
                let from = block.text.len();
                block.push(&words, line);
                block.code.push(from..block.text.len());
            }
            Event::SoftBreak | Event::HardBreak => block.push(" ", line),
            Event::InlineHtml(_) | Event::Start(Tag::HtmlBlock) => {
                unread = matches!(event, Event::Start(_));
                if shows_more_than_comments(&text[range]) {
                    let what = "HTML other than a comment, whose words are not read: write Markdown".to_owned();
                    page.wrong.push(Wrong { line, what });
                }
            }
            Event::Start(Tag::CodeBlock(_) | Tag::Link { link_type: LinkType::Autolink, .. }) => unread = true,
            Event::End(TagEnd::HtmlBlock | TagEnd::CodeBlock | TagEnd::Link) => unread = false,
            Event::Start(Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Link { .. } | Tag::Image { .. })
            | Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Image) => {}
            other => {
                let words = block.text.trim();
                match other {
                    Event::Start(Tag::Table(_)) => source = None,
                    Event::Start(Tag::TableHead | Tag::TableRow) => column = 0,
                    Event::End(TagEnd::TableCell) => {
                        // A row's cells come after those of the head, which is the first to have one called `source`.
                        if source == Some(column) && !words.is_empty() {
                            page.sourced.insert(line);
                        }
                        if source.is_none() && words == "source" {
                            source = Some(column);
                        }
                        column += 1;
                    }
                    _ => {}
                }
                page.blocks.push(std::mem::take(&mut block));
            }
        }
    }
    page
}

/// Whether HTML holds more than comments.
fn shows_more_than_comments(html: &str) -> bool {
    let mut rest = html.trim();
    while let Some((_, after)) = rest.strip_prefix("<!--").and_then(|inside| inside.split_once("-->")) {
        rest = after.trim();
    }
    !rest.is_empty()
}
