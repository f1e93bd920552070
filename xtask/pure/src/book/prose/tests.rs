//! What counts as a figure, what types it, and what a reference resolves to.

use super::*;

const RUN: &str = "20260101T000000Z-h200-00000000";
const YIELD: &str = "host_e2e_us_p50@yield/k=64,blocks=8,poll=1,set=host";
const WAIT: &str = "host_e2e_us_p50@baseline/k=64,blocks=8";

fn numbers() -> Numbers {
    let mut numbers = Numbers::default();
    let mut add = |run: &str, id: &str, value: &str, unit: &str, gpu: &str, retracted: Option<&str>| {
        let [value, unit, gpu] = [value, unit, gpu].map(str::to_owned);
        let ends = [
            ("host_e2e", "host issue", "host-observed done"),
            ("urgent_wait", "host issue", "host sees the urgent kernel start"),
            ("drain", "first block's start", "last block's end"),
            ("poll_free_drain", "first block's start", "last block's end"),
        ];
        let of_metric = ends.iter().find(|(stem, ..)| run != "old" && id.starts_with(&format!("{stem}_")));
        let ends = of_metric.map(|(_, from, to)| ((*from).to_owned(), (*to).to_owned()));
        numbers.add(run, id.to_owned(), Published { value, unit, gpu, retracted: retracted.map(str::to_owned), ends });
    };
    add(RUN, YIELD, "14.088", "us", "H200", None);
    add(RUN, WAIT, "671.942", "us", "H200", None);
    add(RUN, "urgent_wait_us_p50@baseline/k=64,blocks=8", "643.500", "us", "H200", None);
    add(RUN, "host_e2e_us_p99@baseline/k=64,blocks=8", "1300.000", "us", "H200", None);
    add(RUN, "poll_cost_pct@yield/cost,k=64", "0.498", "%", "H200", None);
    add(RUN, "H-RATIO@claim", "47.696", "1", "H200", Some("retracted by R-001"));
    add("other", WAIT, "900.000", "us", "A10", None);
    add(RUN, "drain_ms_p50@yield/cost,k=64", "1.3066", "ms", "H200", None);
    add(RUN, "poll_free_drain_ms_p50@yield/cost,k=64", "1.3000", "ms", "H200", None);
    add("old", WAIT, "671.942", "us", "H200", None);
    add("old", YIELD, "14.088", "us", "H200", None);
    add("old", "urgent_wait_us_p50@baseline/k=64,blocks=8", "643.500", "us", "H200", None);
    numbers
}

fn check(line: &str, expected: &[&str]) {
    let sources = sources(
        "# F\n\n## Sources\n\n| key | source |\n|---|---|\n| APK README | a repository |\n\n## Next\n\n| no | x |\n",
    );
    let found: Vec<String> =
        untyped("RESULTS.md", line, &sources, &numbers()).into_iter().map(|wrong| wrong.what).collect();
    assert_eq!(found.len(), expected.len(), "{line:?}: {found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{line:?}: {found:?} lacks {expected:?}");
    }
}

#[test]
fn a_bare_figure_with_a_unit_is_found() {
    for (line, figure) in [
        ("It takes 22.6 us.", "22.6 us"),
        ("It takes 22.6us, 5 of them.", "22.6 us"),
        ("(at 1,476 µs)", "1476 µs"),
        ("A cost of -0.6 %.", "-0.6 %"),
        ("costs 3% more", "3 %"),
        ("a 32-ns step", "32 ns"),
        ("**1980 MHz**", "1980 MHz"),
        ("about 3 minutes", "3 minutes"),
        ("2 to 3 per cent", "3 per cent"),
        ("at least 1.8× as fast", "1.8 ×"),
        ("25 times faster", "25 times"),
        ("16 MiB", "16 MiB"),
        ("45.28 TFLOP/s", "45.28 TFLOP/s"),
        ("| a cell | 12\u{a0}ms |", "12 ms"),
    ] {
        check(line, &[&format!("{figure:?} does not say what it is")]);
    }
    check("25.1 us and 29.2 us", &["25.1 us", "29.2 us"]);
}

#[test]
fn what_has_no_unit_or_says_what_it_is_passes() {
    for line in [
        "132 SMs, 528 blocks, sm_90, K = 64, CUDA 13.0, section 3, 10,000 events.",
        "A 64 x 64 tile, 64x64x64, and H200 s.",
        "At most `25 us`, and a step of `32 ns`.",
        "Wait p50 957 us and p99 1476 us [cited: APK README].",
        "See [it](docs/32-ns.md) and <!-- 32 ns -->.",
        "```\n32 ns\n```",
        "<!-- assay:begin results -->\n| 32 ns |\n<!-- assay:end results -->",
    ] {
        check(line, &[]);
    }
    check("<!-- assay:begin results -->\n32 ns\n<!-- assay:end results -->\n33 ns", &["33 ns"]);
    check("<!-- assay:begin mine -->\n33 ns\n<!-- assay:end mine -->", &["33 ns"]);
    check(
        "| what | source |\n|---|---|\n| 5 us | a page |\n| 6 us | |\n\n| what |\n|---|\n| 7 us |",
        &["6 us", "7 us"],
    );
    check("`[cited: KEY]` cites nothing: 5 us", &["5 us"]);
    check("Seen by others: 5 us [cited: Nobody].", &["[cited: Nobody] names no row"]);
}

/// What a reader sees of each is a figure without a reference.
#[test]
fn nothing_hides_a_figure_that_a_reader_sees() {
    let free = "does not say what it is";
    for line in [
        "It takes 22**.016** us.",
        "It takes 22.016 **us**.",
        "It takes _22.016_ us.",
        "It takes 22\\.016 us.",
        "It takes 22.016  us, in 22.016\tus.",
        "It takes 22<!-- -->.016 us.",
        "It takes 22.016\u{2009}\u{202f}us.",
        "It takes `22.016` us.",
        "It takes [22.016](page.md) us.",
        "It takes 22.016 [us](page.md).",
        "It takes 2.2e1 us.",
        "It takes .5 us, or x=5 us.",
        "It takes 22.016 (us).",
        "It takes 22.016 usec.",
        "It takes 22.016\nus.",
        "> It takes 22.016\n> us.",
        "``` It takes ``` 22.016 us.",
        "~~~\n```\n~~~\n22.016 us.",
        "`<!--` takes 22.016 us.",
        "`](` takes 22.016 us.",
        "[it](takes 22.016 us)",
        "x](22.016 us)",
        "It takes <!-- ` --> 22.016 us `x`.",
        "It takes 22.016&nbsp;us.",
        "It takes a ` b ` 22.016 us ` tick.",
        "- a\n    ```\n    b\n    ```\n\n  22.016 us",
    ] {
        let found = untyped("docs/x.md", line, &BTreeSet::new(), &numbers());
        assert!(found.iter().any(|wrong| wrong.what.contains(free)), "{line:?}: {found:?}");
    }
    for line in ["22.016<b> us</b>", "<div>\n```\n</div>\n\n5 us", "<!--\n```\n--> 22.016 us", "<!-- 22.016 us"] {
        let found = untyped("docs/x.md", line, &BTreeSet::new(), &numbers());
        assert!(found.iter().any(|wrong| wrong.what.contains("HTML")), "{line:?}: {found:?}");
    }
    let region = "<!-- assay:begin results -->\n5 us\n<!-- assay:end results -->";
    for (page, more) in
        [("README.md", ""), ("docs/RESULTS.md", ""), ("RESULTS.md", "\n6 us"), ("RESULTS.md", " or\n6 us")]
    {
        assert!(!untyped(page, &format!("{region}{more}"), &BTreeSet::new(), &numbers()).is_empty(), "{page} {more:?}");
    }
    assert_eq!(untyped("RESULTS.md", region, &BTreeSet::new(), &numbers()), []);
}

#[test]
fn a_reference_is_read_wherever_it_stands_and_is_no_code_by_a_stray_backtick() {
    let of = |before: &str, after: &str| {
        format!("{before}<!-- assay:measured {RUN} {YIELD} -->14.088 us<!-- /assay -->{after}")
    };
    let wrong = |line: &str| untyped("docs/x.md", line, &BTreeSet::new(), &numbers());
    for (before, after) in [("It took ", ", so."), ("(", ")"), ("", " at the beginning."), ("| **", "** |\n|---|\n")] {
        assert_eq!(wrong(&of(before, after)), []);
    }
    assert_eq!(wrong(&of("", " at the beginning, and 5 us.")).len(), 1);
    let forged = of("A ` tick. ", "").replace("14.088", "9.088");
    assert!(!resolve(&forged, &numbers()).1.is_empty());
    assert!(!resolve(&format!("~~~\n```\n~~~\n{}", forged.replace('`', "")), &numbers()).1.is_empty());
}

#[test]
fn a_published_number_is_never_stated_or_cited() {
    check("It took `14.088 us`.", &["\"14.088 us\" is a published number"]);
    check("It took 14.088 us [cited: APK README].", &["is a published number"]);
    check("It cost `0.498 %`.", &["is a published number"]);
    check("It took `14.088 µs`.", &["is a published number"]);
    check("It took `14.1 us`.", &[]);
}

#[test]
fn references_show_what_they_resolve_to() {
    let text = |of: &str, shown: &str| format!("It took <!-- assay:{of} -->{shown}<!-- /assay --> here.\n");
    let good = |of: String, shown: &str| {
        assert_eq!(resolve(&text(&of, shown), &numbers()), (text(&of, shown), Vec::new()));
        check(&text(&of, shown), &[]);
        let (mended, wrong) = resolve(&text(&of, "1 us"), &numbers());
        assert_eq!(mended, text(&of, shown));
        assert!(wrong[0].what.contains("is not what") && wrong[0].line == 1, "{wrong:?}");
    };
    good(format!("measured {RUN} {YIELD}"), "14.088 us");
    good(format!("measured {RUN} H-RATIO@claim"), "~~47.696~~ (retracted by R-001)");
    good(format!("ratio {RUN} {WAIT} over {RUN} {YIELD}"), "47.696");
    let (drain, poll_free) = ("drain_ms_p50@yield/cost,k=64", "poll_free_drain_ms_p50@yield/cost,k=64");
    good(format!("ratio {RUN} {drain} over {RUN} {poll_free}"), "1.005");
    // Of runs without a contract, only equal names are known to be timed alike.
    good(format!("ratio old {WAIT} over old {YIELD}"), "47.696");
    good(format!("ratio {RUN} {WAIT} over old {YIELD}"), "47.696");
}

#[test]
fn a_reference_to_nothing_or_of_unequal_ends_is_refused() {
    let refused = |of: &str, words: &str| {
        let text = format!("\n<!-- assay:{of} -->1<!-- /assay -->");
        let (same, wrong) = resolve(&text, &numbers());
        assert_eq!(same, text);
        assert!(wrong.len() == 1 && wrong[0].line == 2 && wrong[0].what.contains(words), "{of}: {wrong:?}");
    };
    refused("measured nobody x@y", "no published run nobody has a number x@y");
    refused(&format!("measured {RUN} gone@yield/k=64"), "has a number gone@yield/k=64");
    refused(&format!("measured {RUN}"), "names RUN METRIC@PHASE/CELL");
    refused("guessed 5", "is neither");
    refused(&format!("ratio {RUN} {WAIT}"), "is neither");
    let over = |a: &str, b: &str| format!("ratio {RUN} {a} over {RUN} {b}");
    refused(&over("urgent_wait_us_p50@baseline/k=64,blocks=8", YIELD), "a ratio of different end points");
    refused(&over("host_e2e_us_p99@baseline/k=64,blocks=8", YIELD), "p99; host_e2e_us_p50");
    refused(&over("poll_cost_pct@yield/cost,k=64", YIELD), "poll_cost_pct is no interval");
    refused(&over("poll_cost_pct@yield/cost,k=64", "poll_cost_pct@yield/cost,k=64"), "poll_cost_pct is no interval");
    let wait = "urgent_wait_us_p50@baseline/k=64,blocks=8";
    refused(
        &format!("ratio old {wait} over {RUN} {WAIT}"),
        "no contract says where urgent_wait_us_p50 begins and ends",
    );
    refused(
        &format!("ratio {RUN} {WAIT} over old {wait}"),
        "no contract says where urgent_wait_us_p50 begins and ends",
    );
    refused(&format!("ratio other {WAIT} over {RUN} {YIELD}"), "a ratio across GPU models, A10 and H200");
    let open = format!("<!-- assay:measured {RUN} {YIELD} -->14.088 us\n");
    assert!(resolve(&open, &numbers()).1[0].what.contains("does not end in"));
}

#[test]
fn code_shows_references_as_they_are_typed() {
    for text in [
        "`<!-- assay:measured RUN ID -->1<!-- /assay -->`",
        "```\n<!-- assay:measured RUN ID -->1<!-- /assay -->\n```\n",
    ] {
        assert_eq!(resolve(text, &numbers()), (text.to_owned(), Vec::new()));
    }
}
