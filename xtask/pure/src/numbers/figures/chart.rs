//! A chart as SVG through kuva. Axes, ticks and colors are chosen here, in arithmetic that is the same on every platform,
//! so that nothing depends on a plotting library's use of logarithms.

use kuva::backend::svg::SvgBackend;
use kuva::plot::annotations::ReferenceLine;
use kuva::plot::{LinePlot, ScatterPlot};
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;
use kuva::render::render::{Primitive, Scene, render_multiple};

/// Okabe and Ito's colors, told apart by people with any color vision; black and yellow left out.
const COLORS: [&str; 6] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;

/// One chart with linear axes.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

/// An axis that starts at zero.
pub(super) struct Axis {
    label: String,
    whole: bool,
}

impl Axis {
    pub(super) fn new(label: &str) -> Self {
        Self { label: label.to_owned(), whole: false }
    }

    /// An axis with ticks at whole numbers only.
    pub(super) fn whole(label: &str) -> Self {
        Self { label: label.to_owned(), whole: true }
    }
}

impl Axis {
    /// The distance of ticks, 1, 2 or 5 times a power of ten, that puts at most eight of them between zero and `max`, and
    /// where the axis ends: at a tick that is not below `max`, or half a tick past it where only whole numbers have dots.
    fn ticks(&self, max: f64) -> (f64, f64) {
        let mut unit = if self.whole { 1.0 } else { 1e-6 };
        loop {
            for step in [1.0, 2.0, 5.0].map(|factor| factor * unit) {
                if max <= 8.0 * step {
                    let past = if self.whole { 0.5 } else { 0.0 };
                    return (step, step * ((max / step).ceil().max(1.0) + past));
                }
            }
            unit *= 10.0;
        }
    }
}

/// What is drawn.
pub(super) enum Series {
    /// A line, and a dashed vertical mark in its color.
    Line { name: String, points: Vec<(f64, f64)>, mark_x: Option<f64> },
    /// A line with a dot at each point.
    Dotted { name: String, points: Vec<(f64, f64)> },
    /// Dots alone.
    Cloud { name: String, points: Vec<(f64, f64)> },
}

impl Series {
    pub(super) fn points(&self) -> &[(f64, f64)] {
        match self {
            Self::Line { points, .. } | Self::Dotted { points, .. } | Self::Cloud { points, .. } => points,
        }
    }

    fn mark_x(&self) -> Option<f64> {
        match self {
            Self::Line { mark_x, .. } => *mark_x,
            _ => None,
        }
    }
}

impl Chart {
    /// The file's text.
    pub(super) fn svg(&self) -> String {
        let colored = || self.series.iter().zip(COLORS.iter().cycle());
        let plots: Vec<Plot> = colored().flat_map(|(series, color)| plots(series, color)).collect();
        let xs = self.series.iter().flat_map(|s| s.points().iter().map(|p| p.0).chain(s.mark_x()));
        let ys = self.series.iter().flat_map(|s| s.points().iter().map(|p| p.1));
        let (x_step, x_max) = self.x.ticks(xs.fold(0.0, f64::max));
        let (y_step, y_max) = self.y.ticks(ys.fold(0.0, f64::max));
        let mut layout = Layout::auto_from_plots(&plots)
            .with_width(WIDTH)
            .with_height(HEIGHT)
            .with_title(&self.title)
            .with_title_size(15)
            .with_subtitle(&self.subtitle)
            .with_x_label(&self.x.label)
            .with_y_label(&self.y.label)
            .with_x_axis_min(0.0)
            .with_x_axis_max(x_max)
            .with_x_tick_step(x_step)
            .with_y_axis_min(0.0)
            .with_y_axis_max(y_max)
            .with_y_tick_step(y_step);
        for (series, color) in colored() {
            if let Some(x) = series.mark_x() {
                layout = layout.with_reference_line(ReferenceLine::vertical(x).with_color(*color));
            }
        }
        let mut scene = render_multiple(plots, layout);
        name_clips(&mut scene);
        SvgBackend::new().render_scene(&scene) + "\n"
    }
}

/// kuva numbers clip paths over the whole process, so that a figure's bytes would depend on how many were drawn before it.
fn name_clips(scene: &mut Scene) {
    for (i, def) in scene.defs.iter_mut().enumerate() {
        for element in &mut scene.elements {
            let Primitive::ClipStart { id, .. } = element else { continue };
            let (old, new) = (format!("id=\"{id}\""), format!("plot-area-{i}"));
            if def.contains(&old) {
                *def = def.replace(&old, &format!("id=\"{new}\""));
                *id = new;
            }
        }
    }
}

fn plots(series: &Series, color: &str) -> Vec<Plot> {
    let points = || series.points().iter().copied();
    let line = || LinePlot::new().with_data(points()).with_color(color).with_stroke_width(1.5);
    let dots = |size| ScatterPlot::new().with_data(points()).with_color(color).with_size(size);
    match series {
        Series::Line { name, .. } => vec![line().with_legend(name).into()],
        Series::Dotted { name, .. } => vec![line().with_legend(name).into(), dots(3.0).into()],
        Series::Cloud { name, .. } => vec![dots(1.5).with_legend(name).into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let check = |axis: Axis, max, step: f64, end: f64| {
            let (found_step, found_end) = axis.ticks(max);
            assert!((found_step - step).abs() < 1e-9 && (found_end - end).abs() < 1e-9, "{found_step} {found_end}");
        };
        check(Axis::new(""), 1.0, 0.2, 1.0);
        check(Axis::new(""), 9.3, 2.0, 10.0);
        check(Axis::new(""), 640.0, 100.0, 700.0);
        check(Axis::new(""), 0.0, 1e-6, 1e-6);
        check(Axis::whole(""), 3.0, 1.0, 3.5);
        check(Axis::whole(""), 0.0, 1.0, 1.5);
    }
}
