//! Planted faults: kernels that a sanitizer must catch, launched once and tiny.

use super::Gpu;
use super::memory::Buffer;
use super::module::{Arg, Shape};

/// A planted fault.
pub(super) struct Control {
    pub(super) file: &'static str,
    pub(super) symbol: &'static str,
    pub(super) threads: u32,
}

/// One for each tool of the sanitizer.
pub(super) const CONTROLS: [Control; 4] = [
    Control { file: "controls/out_of_bounds", symbol: "control_out_of_bounds", threads: 32 },
    Control { file: "controls/shared_race", symbol: "control_shared_race", threads: 64 },
    Control { file: "controls/uninitialised", symbol: "control_uninitialised", threads: 32 },
    Control { file: "controls/divergent_barrier", symbol: "control_divergent_barrier", threads: 32 },
];

/// Words in the buffers of a control: half a warp, so that half of it does otherwise, and one word behind the end stays inside
/// the allocation's page.
const WORDS: u32 = 16;

impl Gpu {
    /// Launches the planted fault `symbol` once, so that a sanitizer can catch it.
    ///
    /// # Errors
    /// When there is no such control, or the launch fails (as it does under a tool that stops at a fault).
    pub fn run_control(&mut self, symbol: &str) -> anyhow::Result<()> {
        self.bind()?;
        let names = || CONTROLS.iter().map(|control| control.symbol).collect::<Vec<_>>().join(", ");
        let kernel = self.controls.iter().find(|kernel| kernel.symbol == symbol);
        let kernel = kernel.ok_or_else(|| anyhow::anyhow!("no control {symbol:?}; there are {}", names()))?;
        let (mut data, mut out) = (Buffer::default(), Buffer::default());
        data.ensure(WORDS as usize * size_of::<u32>(), "a control's input")?;
        out.ensure(WORDS as usize * size_of::<u32>(), "a control's output")?;
        let shape = Shape { mode: "control", grid: 1, shared_bytes: 0, cooperative: false };
        kernel.launch(self.background(), &shape, &[Arg::of(&data.at(0)), Arg::of(&out.at(0)), Arg::of(&WORDS)])?;
        self.finish(symbol)
    }
}
