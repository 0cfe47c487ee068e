//! The time scale of a recording's events. The metadata hold the clocks at the beginning and the
//! end, and the supervisor's stream holds readings between them.

use retake_model::{Event, TimePoint, TimeScale};

use crate::{EventReader, Recording, StreamKind};

impl Recording {
    /// Returns the time scale of the events; `None` if the recording has no usable times. Reads the
    /// supervisor's stream; unreadable parts of it only make times less exact.
    pub fn time_scale(&self) -> Option<TimeScale> {
        let metadata = self.metadata();
        let ended = metadata.outcome.as_ref().and_then(|outcome| outcome.ended);
        let ends = [metadata.began?].into_iter().chain(ended).map(TimePoint::from);
        let mut points: Vec<TimePoint> = ends.collect();
        let own = self.streams().filter(|stream| stream.info.kind == StreamKind::Supervisor);
        for stream in own {
            let Ok(mut reader) = EventReader::new(self, stream.info.id) else { continue };
            while let Ok(Some(numbered)) = reader.next() {
                if let Ok(Event::Time(point)) = numbered.event.map(|event| event.decode()) {
                    points.push(point);
                }
            }
        }
        TimeScale::new(points, metadata.ticks_per_second)
    }
}
