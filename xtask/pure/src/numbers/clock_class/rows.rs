//! Reads the evidence on clocks from its tables.

use super::{LaunchClock, Sample};
use anyhow::bail;
use tables::Table;

/// The in-band clocks of a cell's measured launches, from its table of launches.
///
/// # Errors
/// When a column is missing or of another type.
pub fn launch_clocks(launches: &Table) -> anyhow::Result<Vec<LaunchClock>> {
    let (launch, warmup) = (launches.u32("launch")?, launches.u32("warmup")?);
    let windows = launches.u32("clock_windows")?;
    let (min, p50) = (launches.u32("clock_khz_min")?, launches.u32("clock_khz_p50")?);
    let max = launches.u32("clock_khz_max")?;
    let measured = (0..launches.rows()).filter(|row| warmup[*row] == 0);
    Ok(measured
        .map(|row| LaunchClock {
            launch: launch[row],
            windows: windows[row],
            khz_min: min[row],
            khz_p50: p50[row],
            khz_max: max[row],
        })
        .collect())
}

/// Seconds from a cell's first measured launch to the end of its last; zero without one.
///
/// # Errors
/// When a column is missing or of another type.
pub fn measured_seconds(launches: &Table) -> anyhow::Result<f64> {
    let warmup = launches.u32("warmup")?;
    let (start, wall) = (launches.i64("host_start_ns")?, launches.u32("wall_ns")?);
    let measured = || (0..launches.rows()).filter(|row| warmup[*row] == 0);
    let first = measured().map(|row| start[row]).min().unwrap_or(0);
    let last = measured().map(|row| start[row].saturating_add(i64::from(wall[row]))).max().unwrap_or(first);
    Ok(last.saturating_sub(first) as f64 / 1e9)
}

/// The rows of `telemetry.parquet`.
///
/// # Errors
/// When a column is missing or of another type, or a row was taken no later than the one before it.
pub fn samples(telemetry: &Table) -> anyhow::Result<Vec<Sample>> {
    let taken = telemetry.i64("t_ms")?;
    if let Some(row) = (1..taken.len()).find(|row| taken[*row] <= taken[row - 1]) {
        bail!("row {} was taken no later than the row before it", row + 1);
    }
    let (cell, sm_mhz) = (telemetry.u32("cell")?, telemetry.opt_u32("sm_mhz")?);
    let throttle = telemetry.opt_i64("throttle")?;
    let power = telemetry.opt_i64("power_violation_ns")?;
    let thermal = telemetry.opt_i64("thermal_violation_ns")?;
    let sample = |row: usize| Sample {
        cell: cell[row],
        sm_mhz: sm_mhz[row],
        throttle: throttle[row],
        power_violation_ns: power[row],
        thermal_violation_ns: thermal[row],
    };
    Ok((0..telemetry.rows()).map(sample).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::Column;

    #[test]
    fn warm_up_launches_are_left_out() {
        let table = Table::new()
            .with("launch", Column::U32(vec![5, 6, 7]))
            .with("warmup", Column::U32(vec![1, 0, 0]))
            .with("host_start_ns", Column::I64(vec![0, 2_000_000_000, 3_000_000_000]))
            .with("wall_ns", Column::U32(vec![9, 9, 500_000_000]))
            .with("clock_windows", Column::U32(vec![1, 2, 3]))
            .with("clock_khz_min", Column::U32(vec![10, 20, 30]))
            .with("clock_khz_p50", Column::U32(vec![11, 21, 31]))
            .with("clock_khz_max", Column::U32(vec![12, 22, 32]));
        let clocks = launch_clocks(&table).unwrap();
        assert_eq!(clocks.len(), 2);
        assert_eq!(clocks[0], LaunchClock { launch: 6, windows: 2, khz_min: 20, khz_p50: 21, khz_max: 22 });
        assert!((measured_seconds(&table).unwrap() - 1.5).abs() < 1e-12);
    }

    #[test]
    fn absent_telemetry_values_stay_absent_and_missing_columns_are_errors() {
        let table = Table::new()
            .with("t_ms", Column::I64(vec![100]))
            .with("cell", Column::U32(vec![4]))
            .with("sm_mhz", Column::OptU32(vec![None]))
            .with("throttle", Column::OptI64(vec![Some(4)]))
            .with("power_violation_ns", Column::OptI64(vec![None]));
        assert!(samples(&table).is_err());
        let whole = table.with("thermal_violation_ns", Column::OptI64(vec![Some(0)]));
        let read = samples(&whole).unwrap();
        assert_eq!((read[0].cell, read[0].sm_mhz, read[0].throttle), (4, None, Some(4)));
    }

    #[test]
    fn rows_that_were_copied_are_no_samples() {
        let of = |t_ms: [i64; 3]| {
            let absent = || Column::OptI64(vec![None; 3]);
            let table = Table::new()
                .with("t_ms", Column::I64(t_ms.to_vec()))
                .with("cell", Column::U32(vec![1; 3]))
                .with("sm_mhz", Column::OptU32(vec![Some(1980); 3]));
            samples(
                &["throttle", "power_violation_ns", "thermal_violation_ns"]
                    .iter()
                    .fold(table, |t, n| t.with(n, absent())),
            )
        };
        assert_eq!(of([0, 100, 200]).unwrap().len(), 3);
        for copied in [[0, 0, 100], [0, 100, 50]] {
            assert!(of(copied).unwrap_err().to_string().contains("no later than the row before"), "{copied:?}");
        }
    }
}
