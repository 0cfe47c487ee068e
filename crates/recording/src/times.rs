//! What tells when the events of a recording happened, put together from where it is kept: the
//! beginning and the end in the metadata, points between them in the supervisor's stream.

use retake_model::{Event, TimePoint, TimeScale};

use crate::{EventReader, Recording, StreamKind};

impl Recording {
    /// What tells when its events happened; `None` if nothing does. Reads the supervisor's stream:
    /// what cannot be read of it makes times less exact.
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
