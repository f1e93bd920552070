//! Extracts the files of a packed run from its parts, which are untrusted.
//!
//! Only plain files that the index names are written, each once, with the length it names: no link, device or second
//! name is made, nothing outside the folder is reached, and nothing grows beyond what the parts hold.

use super::{HOLD, not_what_was_packed};
use anyhow::{Context, Result, bail, ensure};
use host::failure::does_not_hold;
use host::files;
use schema::Digest;
use schema::bundle::{FileFacts, PackIndex};
use std::collections::{BTreeSet, btree_map};
use std::io::{self, Cursor, Read};
use std::path::Path;
use tar::{Archive, Entry, EntryType};

/// The most bytes of a name that does not fit a header and comes as an entry of its own.
const MOST_NAME_BYTES: u64 = 2048;

/// Writes the files of `index`, whose parts lie in `dir`, into the new folder `to`.
pub(super) fn extract(dir: &Path, index: &PackIndex, to: &Path) -> Result<()> {
    fs_err::create_dir_all(to)?;
    let parts = Parts { dir, left: index.parts.iter(), part: Cursor::new(Vec::new()) };
    let what = format!("the parts of {} are no packed run, or cannot be unpacked here", index.run);
    let broken = |error: anyhow::Error| does_not_hold(&what, &error, HOLD);
    let mut taken = Taken { index, to, seen: BTreeSet::new(), wrong: BTreeSet::new() };
    taken.all(Archive::new(parts)).map_err(broken)?;
    let missing = index.files.keys().filter(|name| !taken.seen.contains(*name)).cloned();
    let wrong: BTreeSet<String> = missing.chain(taken.wrong).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(not_what_was_packed(&index.run, &wrong.iter().map(String::as_str).collect::<Vec<_>>()))
}

struct Taken<'a> {
    index: &'a PackIndex,
    to: &'a Path,
    seen: BTreeSet<String>,
    /// Names that the index does not know, or with other lengths.
    wrong: BTreeSet<String>,
}

impl Taken<'_> {
    fn all(&mut self, mut archive: Archive<Parts<'_>>) -> Result<()> {
        let mut long_name = None;
        // Raw: the library would read a name of any length into memory.
        for entry in archive.entries()?.raw(true) {
            let mut entry = entry?;
            match entry.header().entry_type() {
                EntryType::Directory => long_name = None,
                EntryType::GNULongName => {
                    let mut name = Vec::new();
                    ensure!(entry.size() <= MOST_NAME_BYTES, "a name of {} bytes", entry.size());
                    entry.read_to_end(&mut name)?;
                    name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
                    long_name = Some(name);
                }
                EntryType::Regular => {
                    let name = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
                    let name = String::from_utf8(name).context("a name that is not UTF-8")?;
                    self.one(&name, &mut entry)?;
                }
                other => bail!("an entry that is neither a file nor a folder ({other:?})"),
            }
        }
        Ok(())
    }

    fn one(&mut self, path: &str, entry: &mut Entry<'_, Parts<'_>>) -> Result<()> {
        let name = path.strip_prefix(&format!("{}/", self.index.run));
        let name = name.with_context(|| format!("{path:?} does not lie below the run"))?;
        files::check_name(name)?;
        let Some(facts) = self.index.files.get(name).filter(|facts| facts.bytes == entry.size()) else {
            self.wrong.insert(name.to_owned());
            return Ok(());
        };
        ensure!(self.seen.insert(name.to_owned()), "{name:?} is there twice");
        let path = self.to.join(name);
        fs_err::create_dir_all(path.parent().context("a file needs a folder")?)?;
        let written = io::copy(entry, &mut fs_err::File::create_new(path)?)?;
        ensure!(written == facts.bytes, "{name:?} is cut off");
        Ok(())
    }
}

/// The parts one after the other, each checked again when it is read.
struct Parts<'a> {
    dir: &'a Path,
    left: btree_map::Iter<'a, String, FileFacts>,
    part: Cursor<Vec<u8>>,
}

impl Read for Parts<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.position() == self.part.get_ref().len() as u64 {
            let Some((name, facts)) = self.left.next() else { return Ok(0) };
            let part =
                files::read_plain(&self.dir.join(name)).map_err(|error| io::Error::other(format!("{error:#}")))?;
            if Digest::of(&part) != facts.sha256 {
                return Err(io::Error::other(format!("{name} changed while it was unpacked")));
            }
            self.part = Cursor::new(part);
        }
        self.part.read(buffer)
    }
}
