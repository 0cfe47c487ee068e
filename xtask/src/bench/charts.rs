//! The results of the workloads as charts.

use super::figures::{Measured, Outcome};
use super::mode::Mode;
use super::report;
use super::statistics::Series;
use super::svg::{Bar, Chart};

/// Bars of longer times, as multiples, are cut here.
const LONGEST_RATIO: f64 = 4.0;

/// Returns the charts, of workloads with figures, with the names of their files in docs/.
pub fn charts(measured: &[Measured]) -> Vec<(&'static str, Chart)> {
    let has_figures = |measured: &&Measured| {
        measured.outcome == Outcome::Done && measured.ratio(Mode::Record).is_some()
    };
    let (servers, programs): (Vec<&Measured>, Vec<&Measured>) =
        measured.iter().filter(has_figures).partition(|measured| measured.workload.is_server());
    let mut charts = Vec::new();
    if !programs.is_empty() {
        charts.push(("bench-programs.svg", time_chart(&programs)));
    }
    if !servers.is_empty() {
        charts.push(("bench-servers.svg", server_chart(&servers)));
    }
    charts
}

fn time_chart(programs: &[&Measured]) -> Chart {
    let group = |measured: &&Measured| {
        let baseline = measured.baseline().median();
        let bar = |mode| bar_of(measured.seconds(mode), baseline?, |ratio| ratio);
        (report::title(measured), vec![bar(Mode::Record), bar(Mode::Replay)])
    };
    Chart {
        title: "Recording and replaying".to_owned(),
        subtitle: "time as a multiple of the program's own; shorter is better; medians, error \
        bars from the fastest to the slowest run"
            .to_owned(),
        series: vec!["record".to_owned(), "replay".to_owned()],
        groups: programs.iter().map(group).collect(),
        reference: Some(1.0),
        longest: LONGEST_RATIO,
    }
}

fn server_chart(servers: &[&Measured]) -> Chart {
    let group = |measured: &&Measured| {
        let throughput = measured
            .baseline()
            .median()
            .and_then(|baseline| bar_of(measured.seconds(Mode::Record), baseline, f64::recip));
        let alone = measured.latency_us(measured.baseline_mode()).median();
        let latency =
            alone.and_then(|alone| bar_of(measured.latency_us(Mode::Record), alone, |ratio| ratio));
        (report::title(measured), vec![throughput, latency])
    };
    Chart {
        title: "Recorded servers".to_owned(),
        subtitle: "as a multiple of the server's own: throughput (longer is better), 99.9 % \
        latency at half load (shorter is better)"
            .to_owned(),
        series: vec!["throughput".to_owned(), "latency".to_owned()],
        groups: servers.iter().map(group).collect(),
        reference: Some(1.0),
        longest: LONGEST_RATIO,
    }
}

/// Returns the bar of a series' ratio to a baseline, converted by `view`.
fn bar_of(series: &Series, baseline: f64, view: impl Fn(f64) -> f64) -> Option<Bar> {
    let ends = [view(series.minimum()? / baseline), view(series.maximum()? / baseline)];
    Some(Bar {
        value: view(series.median()? / baseline),
        low: ends[0].min(ends[1]),
        high: ends[0].max(ends[1]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::workload::Workload;

    #[test]
    fn throughput_is_the_inverse_of_time() {
        let series = Series { figures: vec![2.0, 4.0, 8.0] };
        assert_eq!(bar_of(&series, 4.0, f64::recip), Some(Bar { value: 1.0, low: 0.5, high: 2.0 }));
        assert_eq!(
            bar_of(&series, 4.0, |ratio| ratio),
            Some(Bar { value: 1.0, low: 0.5, high: 2.0 })
        );
        assert_eq!(bar_of(&Series::default(), 4.0, f64::recip), None);
    }

    #[test]
    fn only_what_was_measured_is_drawn() {
        assert!(charts(&[Measured::new(&Workload::default())]).is_empty());
        let mut program = Measured::new(&Workload::default());
        program.seconds_mut(Mode::Native).push(1.0);
        program.seconds_mut(Mode::Record).push(1.5);
        let charts = charts(&[program]);
        assert_eq!(charts[0].0, "bench-programs.svg");
        assert!(charts[0].1.groups[0].1[1].is_none(), "no replay");
    }
}
