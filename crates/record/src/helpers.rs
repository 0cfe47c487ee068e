//! The threads that work for a recording in progress.

use crate::drain::Drain;
use crate::images::Images;
use crate::keep::Keeping;
use crate::shared_state::Recorder;
use crate::{RecordError, chaos, forced, service};
use std::sync::Arc;

/// All helper threads.
pub(crate) struct Helpers {
    recorder: Arc<Recorder>,
    drain: Drain,
    keeping: Option<Keeping>,
    service: service::Service,
    forcer: forced::Forcer,
    slicer: Option<chaos::Slicer>,
    images: Option<Images>,
}

impl Helpers {
    pub fn start(
        recorder: &Arc<Recorder>,
        chaos_seed: Option<u64>,
        images: Option<Images>,
    ) -> Self {
        Self {
            recorder: Arc::clone(recorder),
            images,
            drain: Drain::start(recorder),
            keeping: recorder
                .keeper
                .clone()
                .map(|keeper| Keeping::start(keeper, Arc::clone(&recorder.accounts))),
            service: service::Service::start(recorder),
            forcer: forced::Forcer::start(recorder),
            slicer: chaos_seed.map(|seed| chaos::Slicer::start(recorder, seed)),
        }
    }

    /// Ends all threads and waits for them. No recorded process may be left to be forced or served.
    pub fn stop(self) -> Result<(), RecordError> {
        if let Some(slicer) = self.slicer {
            slicer.stop();
        }
        // Forcer and service end in parallel.
        if let Some(images) = self.images {
            images.stop();
        }
        self.forcer.stop();
        self.service.stop();
        self.forcer.join();
        self.service.join();
        self.recorder.leases.stop();
        self.drain.stop()?;
        if let Some(keeping) = self.keeping {
            keeping.stop();
        }
        Ok(())
    }
}
