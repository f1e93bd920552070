//! Reads untrusted tables, a piece at a time.
//!
//! Everything that a file claims about its own size is checked before the Parquet library acts on it: footer, page
//! headers, row counts, encodings. The caller bounds how much is read at once, so a small file cannot become large in
//! memory.

use super::guard::guarded;
use super::{Column, MAX_COLUMNS, MAX_ROWS, Table, thrift};
use anyhow::{Context, bail, ensure};
use parquet::basic::{Compression, Type as Physical};
use parquet::column::reader::ColumnReader;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::os::unix::fs::FileExt;

const MAGIC: &[u8; 4] = b"PAR1";
/// The most bytes of a footer. Ours have a few thousand.
const MAX_FOOTER_BYTES: usize = 256 << 10;
/// The most list elements in a footer, and in a page header.
const MAX_ELEMENTS: usize = 16 << 10;
/// The most bytes of a page's header, and of a page. Pages are written with about a mebibyte.
const MAX_HEADER_BYTES: usize = 1 << 10;
const MAX_PAGE_BYTES: i64 = 4 << 20;
/// How many rows the library is asked for at once.
const PIECE_ROWS: usize = 64 << 10;

/// A table that is being read.
pub struct Reader {
    file: SerializedFileReader<File>,
    /// The columns, without values.
    columns: Table,
    rows: usize,
    group: usize,
    open: Vec<ColumnReader>,
    left_in_group: usize,
}

impl Reader {
    /// Looks at all that the file claims, and begins to read.
    ///
    /// # Errors
    /// When the file is no table of plain columns, or claims more than it can hold.
    pub fn open(file: File) -> anyhow::Result<Self> {
        check_footer(&file)?;
        guarded(|| {
            let reader = SerializedFileReader::new(file.try_clone()?)?;
            let rows = check(reader.metadata(), &file)?;
            let columns = columns(reader.metadata())?;
            Ok(Self { file: reader, columns, rows, group: 0, open: Vec::new(), left_in_group: 0 })
        })
    }

    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The rest of it, which must not have more than `values` values.
    ///
    /// # Errors
    /// When it has more, or does not read as what it claims to be.
    pub fn all(mut self, values: usize) -> anyhow::Result<Table> {
        let claimed = self.rows.saturating_mul(self.columns.columns.len());
        ensure!(claimed <= values, "{claimed} values are more than such a table may hold ({values})");
        let mut table = self.columns.clone();
        while let Some(piece) = self.piece()? {
            table.append(piece)?;
        }
        ensure!(table.rows() == self.rows, "it has {} rows and claims {}", table.rows(), self.rows);
        Ok(table)
    }

    /// The next rows, some ten thousands; nothing at the end.
    ///
    /// # Errors
    /// When it does not read as what it claims to be.
    pub fn piece(&mut self) -> anyhow::Result<Option<Table>> {
        guarded(|| self.decode())
    }

    fn decode(&mut self) -> anyhow::Result<Option<Table>> {
        while self.left_in_group == 0 {
            if self.group == self.file.num_row_groups() {
                return Ok(None);
            }
            let group = self.file.get_row_group(self.group)?;
            self.left_in_group = usize::try_from(group.metadata().num_rows())?;
            self.open = (0..group.num_columns()).map(|i| group.get_column_reader(i)).collect::<Result<_, _>>()?;
            self.group += 1;
        }
        let rows = self.left_in_group.min(PIECE_ROWS);
        let mut piece = self.columns.clone();
        for ((_, column), reader) in piece.columns.iter_mut().zip(&mut self.open) {
            read_column(reader, column, rows)?;
            ensure!(column.len() == rows, "a column has fewer values than it claims");
        }
        self.left_in_group -= rows;
        Ok(Some(piece))
    }
}

fn check_footer(file: &File) -> anyhow::Result<()> {
    let length = file.metadata()?.len();
    ensure!(length >= 12, "{length} bytes are no table");
    let (mut first, mut last) = ([0; 4], [0; 8]);
    file.read_exact_at(&mut first, 0)?;
    file.read_exact_at(&mut last, length - 8)?;
    ensure!(first == *MAGIC && last[4..] == *MAGIC, "it is no Parquet file");
    let footer = u32::from_le_bytes(last[..4].try_into()?) as usize;
    ensure!(footer <= MAX_FOOTER_BYTES && footer as u64 <= length - 12, "its footer has an impossible length");
    let mut bytes = vec![0; footer];
    file.read_exact_at(&mut bytes, length - 8 - footer as u64)?;
    thrift::walk(&bytes, MAX_ELEMENTS, &mut |_, _| {}).context("its footer")?;
    Ok(())
}

/// Every page of every column; gives the number of rows.
fn check(meta: &ParquetMetaData, file: &File) -> anyhow::Result<usize> {
    let rows = usize::try_from(meta.file_metadata().num_rows()).context("negative row count")?;
    ensure!(rows <= MAX_ROWS, "{rows} rows are more than a table may hold ({MAX_ROWS})");
    let columns = meta.file_metadata().schema_descr().num_columns();
    let mut in_groups = 0_usize;
    for group in meta.row_groups() {
        let group_rows = usize::try_from(group.num_rows()).context("negative row count")?;
        in_groups = in_groups.saturating_add(group_rows);
        ensure!(group.num_columns() == columns, "a row group has other columns than its file");
        for column in group.columns() {
            check_pages(column, file, group_rows)
                .with_context(|| format!("column {:?}", column.column_path().string()))?;
        }
    }
    ensure!(in_groups == rows, "the row groups have {in_groups} rows, and their file claims {rows}");
    Ok(rows)
}

fn check_pages(column: &ColumnChunkMetaData, file: &File, rows: usize) -> anyhow::Result<()> {
    ensure!(
        matches!(column.compression(), Compression::UNCOMPRESSED | Compression::ZSTD(_)),
        "it is compressed in a way that is not read here"
    );
    let begin = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let mut at = u64::try_from(begin).context("it begins before its file")?;
    let length = u64::try_from(column.compressed_size()).context("it has a negative length")?;
    let end = at.checked_add(length).filter(|end| *end <= file.metadata().map_or(0, |meta| meta.len()));
    let end = end.context("it ends behind its file")?;
    let mut values = 0_i64;
    while at < end {
        let mut header = vec![0; usize::try_from(end - at)?.min(MAX_HEADER_BYTES)];
        file.read_exact_at(&mut header, at)?;
        let mut page = Page::default();
        let header_bytes = thrift::walk(&header, MAX_ELEMENTS, &mut |path, value| page.field(path, value))?;
        values = values.saturating_add(page.check(rows)?);
        at += header_bytes as u64 + u64::try_from(page.compressed)?;
    }
    ensure!(at == end && values == i64::try_from(rows)?, "its pages are not those it claims");
    Ok(())
}

/// What a page's header says (field numbers as in the format's `parquet.thrift`). Absent is -1.
struct Page {
    kind: i64,
    uncompressed: i64,
    compressed: i64,
    values: i64,
    encoding: i64,
    levels: i64,
    dictionary_values: i64,
    dictionary_encoding: i64,
}

impl Default for Page {
    fn default() -> Self {
        let absent = -1;
        Self {
            kind: absent,
            uncompressed: absent,
            compressed: absent,
            values: absent,
            encoding: absent,
            levels: absent,
            dictionary_values: absent,
            dictionary_encoding: absent,
        }
    }
}

impl Page {
    fn field(&mut self, path: &[i16], value: i64) {
        match path {
            [1] => self.kind = value,
            [2] => self.uncompressed = value,
            [3] => self.compressed = value,
            [5, 1] => self.values = value,
            [5, 2] => self.encoding = value,
            [5, 3] => self.levels = value,
            [7, 1] => self.dictionary_values = value,
            [7, 2] => self.dictionary_encoding = value,
            _ => {}
        }
    }

    /// Gives how many values of the column it holds.
    fn check(&self, rows: usize) -> anyhow::Result<i64> {
        const DATA: i64 = 0;
        const DICTIONARY: i64 = 2;
        const PLAIN: i64 = 0;
        const PLAIN_DICTIONARY: i64 = 2;
        const RLE: i64 = 3;
        const RLE_DICTIONARY: i64 = 8;
        let sized = |bytes: i64| (0..=MAX_PAGE_BYTES).contains(&bytes);
        ensure!(sized(self.uncompressed) && sized(self.compressed), "a page has an impossible size");
        match self.kind {
            DATA => {
                ensure!(
                    [PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY].contains(&self.encoding) && self.levels == RLE,
                    "a page is encoded in a way that is not read here"
                );
                ensure!(
                    (0..=i64::try_from(rows)?).contains(&self.values),
                    "a page claims more values than there are rows"
                );
                Ok(self.values)
            }
            DICTIONARY => {
                // A value of a dictionary has four bytes at least.
                let room = self.uncompressed / 4;
                ensure!((0..=room).contains(&self.dictionary_values), "a dictionary claims more than it holds");
                ensure!([PLAIN, PLAIN_DICTIONARY].contains(&self.dictionary_encoding), "a dictionary is encoded oddly");
                Ok(0)
            }
            other => bail!("a page of the unexpected kind {other}"),
        }
    }
}

fn columns(meta: &ParquetMetaData) -> anyhow::Result<Table> {
    let descriptors = meta.file_metadata().schema_descr().columns();
    ensure!(descriptors.len() <= MAX_COLUMNS, "{} columns are more than a table may hold", descriptors.len());
    let mut table = Table::new();
    for descriptor in descriptors {
        let optional = descriptor.max_def_level() == 1;
        let flat =
            descriptor.max_def_level() <= 1 && descriptor.max_rep_level() == 0 && descriptor.path().parts().len() == 1;
        ensure!(flat, "nested columns are not allowed");
        let name = descriptor.name();
        ensure!(table.columns.iter().all(|(other, _)| other != name), "column {name:?} is there twice");
        let column = match (descriptor.physical_type(), optional) {
            (Physical::INT32, false) => Column::U32(Vec::new()),
            (Physical::INT32, true) => Column::OptU32(Vec::new()),
            (Physical::INT64, false) => Column::I64(Vec::new()),
            (Physical::INT64, true) => Column::OptI64(Vec::new()),
            (Physical::DOUBLE, false) => Column::F64(Vec::new()),
            (other, _) => bail!("column {name:?} has the unexpected type {other}"),
        };
        table.columns.push((name.to_owned(), column));
    }
    Ok(table)
}

fn read_column(reader: &mut ColumnReader, column: &mut Column, rows: usize) -> anyhow::Result<()> {
    let mut levels = Vec::new();
    match (reader, column) {
        (ColumnReader::Int32ColumnReader(r), Column::U32(out)) => {
            let mut values = Vec::new();
            r.read_records(rows, None, None, &mut values)?;
            out.extend(values.into_iter().map(i32::cast_unsigned));
        }
        (ColumnReader::Int32ColumnReader(r), Column::OptU32(out)) => {
            let mut values = Vec::new();
            r.read_records(rows, Some(&mut levels), None, &mut values)?;
            out.extend(spread(&levels, values).into_iter().map(|v| v.map(i32::cast_unsigned)));
        }
        (ColumnReader::Int64ColumnReader(r), Column::I64(out)) => {
            r.read_records(rows, None, None, out)?;
        }
        (ColumnReader::Int64ColumnReader(r), Column::OptI64(out)) => {
            let mut values = Vec::new();
            r.read_records(rows, Some(&mut levels), None, &mut values)?;
            out.extend(spread(&levels, values));
        }
        (ColumnReader::DoubleColumnReader(r), Column::F64(out)) => {
            r.read_records(rows, None, None, out)?;
        }
        _ => bail!("a column changes its type between row groups"),
    }
    Ok(())
}

fn spread<T>(levels: &[i16], values: Vec<T>) -> Vec<Option<T>> {
    let mut values = values.into_iter();
    levels.iter().map(|level| if *level == 1 { values.next() } else { None }).collect()
}

#[cfg(test)]
mod tests;
