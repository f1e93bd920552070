//! Tables of raw numbers on disk: Parquet files of plain columns, zstd-compressed.
//!
//! Every event, launch and telemetry record is such a table. There are no nested types and no strings: a name belongs in
//! the cell's JSON header, and a row refers to it by index. Reading is in `reader.rs`, since a file may be hostile.

use anyhow::{Context, bail, ensure};
use parquet::basic::{Compression, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::path::Path;
use std::sync::Arc;

mod guard;
mod reader;
mod thrift;

pub use reader::Reader;

/// The most rows a table may hold. Larger files are refused before anything is allocated for them.
pub const MAX_ROWS: usize = 1 << 27;
/// The most columns a table may hold.
pub const MAX_COLUMNS: usize = 64;
/// The most values of a table that is read whole. Rows of blocks and clock windows may be more, and are read in pieces.
pub const MAX_VALUES: usize = 1 << 23;

/// One column's values. Absent values exist only in the `Opt` kinds and are never written as zero.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Unsigned 32-bit values, stored as INT32 with the same bits.
    U32(Vec<u32>),
    /// Unsigned 32-bit values that may be absent.
    OptU32(Vec<Option<u32>>),
    /// Signed 64-bit values.
    I64(Vec<i64>),
    /// Signed 64-bit values that may be absent.
    OptI64(Vec<Option<i64>>),
    /// Floating-point values.
    F64(Vec<f64>),
}

impl Column {
    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::U32(v) => v.len(),
            Self::OptU32(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::OptI64(v) => v.len(),
            Self::F64(v) => v.len(),
        }
    }

    /// Whether the column has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Named columns of equal length, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The columns with their names, in file order.
    pub columns: Vec<(String, Column)>,
}

impl Table {
    /// An empty table; add columns with [`Table::with`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// This table with one more column.
    #[must_use]
    pub fn with(mut self, name: &str, column: Column) -> Self {
        self.columns.push((name.to_owned(), column));
        self
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    fn get(&self, name: &str) -> anyhow::Result<&Column> {
        let found = self.columns.iter().find(|(n, _)| n == name);
        found.map(|(_, column)| column).with_context(|| format!("the table has no column {name:?}"))
    }

    /// The values of an unsigned column.
    ///
    /// # Errors
    /// When there is no such column or it has another type.
    pub fn u32(&self, name: &str) -> anyhow::Result<&[u32]> {
        match self.get(name)? {
            Column::U32(v) => Ok(v),
            _ => bail!("column {name:?} does not hold unsigned 32-bit values"),
        }
    }

    /// The values of an unsigned column whose values may be absent.
    ///
    /// # Errors
    /// When there is no such column or it has another type.
    pub fn opt_u32(&self, name: &str) -> anyhow::Result<&[Option<u32>]> {
        match self.get(name)? {
            Column::OptU32(v) => Ok(v),
            _ => bail!("column {name:?} does not hold optional unsigned 32-bit values"),
        }
    }

    /// The values of a signed 64-bit column.
    ///
    /// # Errors
    /// When there is no such column or it has another type.
    pub fn i64(&self, name: &str) -> anyhow::Result<&[i64]> {
        match self.get(name)? {
            Column::I64(v) => Ok(v),
            _ => bail!("column {name:?} does not hold signed 64-bit values"),
        }
    }

    /// The values of a signed 64-bit column whose values may be absent.
    ///
    /// # Errors
    /// When there is no such column or it has another type.
    pub fn opt_i64(&self, name: &str) -> anyhow::Result<&[Option<i64>]> {
        match self.get(name)? {
            Column::OptI64(v) => Ok(v),
            _ => bail!("column {name:?} does not hold optional signed 64-bit values"),
        }
    }

    /// The values of a floating-point column.
    ///
    /// # Errors
    /// When there is no such column or it has another type.
    pub fn f64(&self, name: &str) -> anyhow::Result<&[f64]> {
        match self.get(name)? {
            Column::F64(v) => Ok(v),
            _ => bail!("column {name:?} does not hold floating-point values"),
        }
    }

    /// Appends the rows of `other`, which must have the same columns.
    ///
    /// # Errors
    /// When names or types differ.
    pub fn append(&mut self, other: Self) -> anyhow::Result<()> {
        if self.columns.is_empty() {
            *self = other;
            return Ok(());
        }
        ensure!(self.columns.len() == other.columns.len(), "tables with different columns cannot be joined");
        for ((name, mine), (other_name, theirs)) in self.columns.iter_mut().zip(other.columns) {
            ensure!(*name == other_name, "column {name:?} met {other_name:?}");
            match (mine, theirs) {
                (Column::U32(a), Column::U32(b)) => a.extend(b),
                (Column::OptU32(a), Column::OptU32(b)) => a.extend(b),
                (Column::I64(a), Column::I64(b)) => a.extend(b),
                (Column::OptI64(a), Column::OptI64(b)) => a.extend(b),
                (Column::F64(a), Column::F64(b)) => a.extend(b),
                _ => bail!("column {name:?} has two types"),
            }
        }
        Ok(())
    }

    /// The file's bytes: the same table always gives the same bytes.
    ///
    /// # Errors
    /// When columns differ in length or encoding fails.
    pub fn to_bytes(&self) -> anyhow::Result<Vec<u8>> {
        let rows = self.rows();
        ensure!(self.columns.iter().all(|(_, c)| c.len() == rows), "the columns differ in length");
        let fields =
            self.columns.iter().map(|(name, column)| field(name, column)).collect::<anyhow::Result<Vec<_>>>()?;
        let schema = Arc::new(Type::group_type_builder("table").with_fields(fields).build()?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(9)?))
            .set_created_by("assay".to_owned())
            .build();
        let mut bytes = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        for (_, column) in &self.columns {
            let mut out = group.next_column()?.context("parquet gave no column writer")?;
            match column {
                Column::U32(v) => {
                    let v: Vec<i32> = v.iter().map(|x| x.cast_signed()).collect();
                    out.typed::<Int32Type>().write_batch(&v, None, None)?;
                }
                Column::OptU32(v) => {
                    let levels: Vec<i16> = v.iter().map(|x| i16::from(x.is_some())).collect();
                    let v: Vec<i32> = v.iter().flatten().map(|x| x.cast_signed()).collect();
                    out.typed::<Int32Type>().write_batch(&v, Some(&levels), None)?;
                }
                Column::I64(v) => {
                    out.typed::<Int64Type>().write_batch(v, None, None)?;
                }
                Column::OptI64(v) => {
                    let levels: Vec<i16> = v.iter().map(|x| i16::from(x.is_some())).collect();
                    let v: Vec<i64> = v.iter().flatten().copied().collect();
                    out.typed::<Int64Type>().write_batch(&v, Some(&levels), None)?;
                }
                Column::F64(v) => {
                    out.typed::<DoubleType>().write_batch(v, None, None)?;
                }
            }
            out.close()?;
        }
        group.close()?;
        writer.close()?;
        Ok(bytes)
    }

    /// Writes the table to `path`, whole or not at all.
    ///
    /// # Errors
    /// When encoding or writing fails.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let partial = path.with_extension("parquet.partial");
        let mut file = fs_err::File::create(&partial)?;
        std::io::Write::write_all(&mut file, &self.to_bytes()?)?;
        file.sync_all()?;
        fs_err::rename(&partial, path)?;
        Ok(())
    }

    /// Reads a table.
    ///
    /// # Errors
    /// When the file is not such a table, or holds more than [`MAX_VALUES`] values or [`MAX_COLUMNS`] columns.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let file = fs_err::File::open(path)?.into_file();
        let read = Reader::open(file).and_then(|reader| reader.all(MAX_VALUES));
        read.with_context(|| format!("failed to read {}", path.display()))
    }
}

fn field(name: &str, column: &Column) -> anyhow::Result<Arc<Type>> {
    let (physical, repetition) = match column {
        Column::U32(_) => (Physical::INT32, Repetition::REQUIRED),
        Column::OptU32(_) => (Physical::INT32, Repetition::OPTIONAL),
        Column::I64(_) => (Physical::INT64, Repetition::REQUIRED),
        Column::OptI64(_) => (Physical::INT64, Repetition::OPTIONAL),
        Column::F64(_) => (Physical::DOUBLE, Repetition::REQUIRED),
    };
    let mut builder = Type::primitive_type_builder(name, physical).with_repetition(repetition);
    if physical == Physical::INT32 {
        builder = builder.with_converted_type(parquet::basic::ConvertedType::UINT_32);
    }
    Ok(Arc::new(builder.build()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Table {
        Table::new()
            .with("launch", Column::U32(vec![0, 1, u32::MAX]))
            .with("host_ns", Column::OptU32(vec![None, Some(0), Some(7)]))
            .with("set_ns", Column::I64(vec![-1, 0, i64::MAX]))
            .with("done_ns", Column::OptI64(vec![Some(3), None, None]))
            .with("mhz", Column::F64(vec![0.5, -0.0, 1980.0]))
    }

    #[test]
    fn a_table_comes_back_as_written_and_always_as_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        example().write(&path).unwrap();
        assert_eq!(Table::read(&path).unwrap(), example());
        assert_eq!(example().to_bytes().unwrap(), std::fs::read(&path).unwrap());
    }

    #[test]
    fn an_empty_table_comes_back_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        Table::new().with("launch", Column::U32(vec![])).write(&path).unwrap();
        assert_eq!(Table::read(&path).unwrap().rows(), 0);
    }

    #[test]
    fn columns_of_different_length_are_refused() {
        let crooked = Table::new().with("a", Column::U32(vec![1])).with("b", Column::U32(vec![]));
        assert!(crooked.to_bytes().is_err());
    }

    #[test]
    fn a_truncated_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let bytes = example().to_bytes().unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
        assert!(Table::read(&path).is_err());
    }
}
