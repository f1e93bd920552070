//! Tables made to be expensive, wrong or misleading are refused before they cost anything.

use super::super::MAX_VALUES;
use super::*;
use parquet::basic::{Encoding, ZstdLevel};
use parquet::data_type::{Int32Type, Int64Type};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use std::io::Write;
use std::sync::Arc;

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn read(bytes: &[u8]) -> anyhow::Result<Table> {
    Reader::open(file(bytes))?.all(MAX_VALUES)
}

fn refused(bytes: &[u8], said: &str) {
    let error = format!("{:#}", read(bytes).unwrap_err());
    assert!(error.contains(said), "{error} lacks {said:?}");
}

/// Found by fuzzing: the length of a run of dictionary indexes goes on for more bits than a number has.
#[test]
fn a_page_that_makes_the_decoder_panic_is_refused() {
    refused(include_bytes!("../../../../fuzz/seeds/table/long-varint"), "");
}

fn example() -> Vec<u8> {
    let table = Table::new()
        .with("launch", Column::U32((0..300).collect()))
        .with("host_ns", Column::OptU32((0..300).map(|i| (i % 3 > 0).then_some(i)).collect()))
        .with("set_ns", Column::I64((0..300).map(|i| i * 1_000_000_007).collect()))
        .with("done_ns", Column::OptI64(vec![None; 300]))
        .with("mhz", Column::F64((0..300).map(f64::from).collect()));
    table.to_bytes().unwrap()
}

/// One column `a` of `n` zeros, written as `properties` say.
fn zeros(n: usize, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let schema = Arc::new(parse_message_type("message table { required int32 a; }").unwrap());
    let properties = properties.set_compression(Compression::ZSTD(ZstdLevel::try_new(1).unwrap())).build();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut out = group.next_column().unwrap().unwrap();
    out.typed::<Int32Type>().write_batch(&vec![0; n], None, None).unwrap();
    out.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn a_page_that_would_become_large_is_refused_unread() {
    let rows = 3 << 20;
    let one_page = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_data_page_size_limit(1 << 30)
        .set_data_page_row_count_limit(1 << 30)
        .set_write_batch_size(1 << 30);
    let bomb = zeros(rows, one_page);
    assert!(bomb.len() < 10_000, "{} bytes", bomb.len());
    refused(&bomb, "a page has an impossible size");
}

#[test]
fn more_values_than_a_table_may_hold_are_refused_whole_but_read_in_pieces() {
    let rows = MAX_VALUES + 1;
    let long = zeros(rows, WriterProperties::builder());
    assert!(long.len() < 200_000, "{} bytes", long.len());
    refused(&long, "values are more than such a table may hold");
    let mut reader = Reader::open(file(&long)).unwrap();
    let mut seen = 0;
    while let Some(piece) = reader.piece().unwrap() {
        assert!(piece.rows() <= PIECE_ROWS);
        seen += piece.rows();
    }
    assert_eq!(seen, rows);
}

#[test]
fn an_encoding_that_is_never_written_is_refused() {
    let delta = WriterProperties::builder().set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BINARY_PACKED);
    refused(&zeros(100, delta), "encoded in a way that is not read here");
}

/// A file of one group and no rows, with this schema.
fn empty(schema: &str) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    let writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(WriterProperties::builder().build())).unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn columns_that_are_no_plain_numbers_are_refused() {
    for (schema, said) in [
        ("message t { repeated int32 a; }", "nested"),
        ("message t { required group g { required int32 a; } }", "nested"),
        ("message t { required binary a; }", "unexpected type"),
        ("message t { required int32 a; required int32 a; }", "twice"),
        (
            &format!("message t {{ {} }}", (0..65).map(|i| format!("required int32 c{i};")).collect::<String>()),
            "columns",
        ),
    ] {
        refused(&empty(schema), said);
    }
    assert_eq!(read(&empty("message t { required int32 a; }")).unwrap().rows(), 0);
}

#[test]
fn a_footer_that_claims_too_much_is_refused_unread() {
    let good = example();
    let footer = |length: u32| [&good[..good.len() - 8], &length.to_le_bytes(), MAGIC].concat();
    refused(&footer(u32::MAX), "impossible length");
    refused(&footer(MAX_FOOTER_BYTES as u32 + 1), "impossible length");
    refused(&good[..good.len() - 1], "no Parquet file");
    refused(b"PAR1", "no table");
    // A list that claims four thousand million elements.
    let list = [0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f];
    let liar = [MAGIC, &list[..], &(list.len() as u32).to_le_bytes(), MAGIC].concat();
    refused(&liar, "more list elements");
}

/// Two groups whose values come back in order, and in which only the last piece is short.
#[test]
fn row_groups_follow_each_other() {
    let schema = Arc::new(parse_message_type("message table { required int64 a; }").unwrap());
    let mut bytes = Vec::new();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    for values in [[1, 2, 3], [4, 5, 6]] {
        let mut group = writer.next_row_group().unwrap();
        let mut out = group.next_column().unwrap().unwrap();
        out.typed::<Int64Type>().write_batch(&values, None, None).unwrap();
        out.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    assert_eq!(read(&bytes).unwrap().i64("a").unwrap(), [1, 2, 3, 4, 5, 6]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    // Whatever is damaged, reading ends with a table of the rows that the file has room for, or with an error.
    #[test]
    fn a_damaged_table_never_panics(flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut in any::<prop::sample::Index>(), whole in any::<bool>()) {
        let mut bytes = example();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = read(&bytes);
    }
}
