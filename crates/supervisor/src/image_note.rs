//! What the store remembers of a file that was examined for system calls: where its patched pieces
//! go, and under which content each of them is kept. So an image is read once, straight into the
//! memory that processes attach.

use retake_kernel::shared;
use retake_patch::{
    Image, Options, PAGE_BYTES, Placement, RefusedSite, Run, SiteKind, UnpatchedReason, Verdict,
    examine, tells_all,
};
use retake_recording::{ContentId, Store};
use serde::{Deserialize, Serialize};
use std::io;

/// What is to be done with a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ImageNote {
    /// One of `shared::CALLS_*`.
    pub calls: u32,
    /// All by which its threads synchronise is known, and in order.
    pub tells_all: bool,
    /// The image, if there is one.
    pub image: Option<ImagePlaces>,
}

/// Where an image lies, in link-time addresses.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ImagePlaces {
    /// Span of the file's segments.
    pub low: u64,
    pub high: u64,
    pub stubs: Piece,
    /// Patched text, at most `shared::MAX_PARTS`.
    pub parts: Vec<Piece>,
    /// Pages that are not to be executed unnoticed, at most `shared::MAX_UNREACHED`: where they
    /// begin and end.
    pub unreached: Vec<(u64, u64)>,
}

/// Whole pages of an image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// Where the mapping begins in the file, and how long it is, whose text this is a part of.
    pub text_offset: u64,
    pub text_bytes: u64,
    /// From the beginning of that text.
    pub offset: u64,
    pub address: u64,
    pub bytes: u64,
    content: [u8; 32],
}

impl Piece {
    fn stubs(store: &Store, image: &Image) -> io::Result<Self> {
        let (bytes, content) = (image.stubs.len() as u64, store.add_bytes(&image.stubs)?.0);
        Ok(Self {
            text_offset: 0,
            text_bytes: 0,
            offset: 0,
            address: image.stub_address,
            bytes,
            content,
        })
    }

    fn text(store: &Store, image: &Image, run: Run) -> io::Result<Self> {
        let segment = &image.segments[run.segment];
        let offset = run.address - segment.address;
        let content =
            store.add_bytes(&segment.bytes[offset as usize..(offset + run.bytes) as usize])?.0;
        let (text_offset, text_bytes) = (segment.file_offset, segment.bytes.len() as u64);
        Ok(Self {
            text_offset,
            text_bytes,
            offset,
            address: run.address,
            bytes: run.bytes,
            content,
        })
    }

    /// Under which the store has its bytes.
    pub fn content(&self) -> ContentId {
        ContentId(self.content)
    }
}

impl ImageNote {
    /// Examines a file and stores its image. What is no well-formed program may make any call.
    pub fn examine(
        store: &Store,
        file: &[u8],
        placement: Placement,
        options: &Options,
    ) -> io::Result<Self> {
        match examine(file, placement, options) {
            Ok(Verdict::Patched(image)) if image.segments.len() <= shared::MAX_PARTS => {
                let is_left_alone = |site: &RefusedSite| site.kind == SiteKind::Atomic;
                let tells_all =
                    options.sections && tells_all(file) && !image.refused.iter().any(is_left_alone);
                Ok(Self { tells_all, ..Self::of_image(store, &image)? })
            }
            Ok(Verdict::Unpatched(unpatched)) if !unpatched.unknown_calls => {
                let is_done = unpatched.reason == UnpatchedReason::NoSites;
                let tells_all = options.sections && is_done && tells_all(file);
                Ok(Self { calls: shared::CALLS_NONE, tells_all, image: None })
            }
            _ => Ok(Self { calls: shared::CALLS_UNKNOWN, tells_all: false, image: None }),
        }
    }

    fn of_image(store: &Store, image: &Image) -> io::Result<Self> {
        let mut kinds = image
            .sites
            .iter()
            .map(|site| site.kind)
            .chain(image.refused.iter().map(|site| site.kind));
        let unknown_calls = image.unknown_calls || image.unreached.len() > shared::MAX_UNREACHED;
        let calls = match (unknown_calls, kinds.any(SiteKind::must_be_seen)) {
            (true, _) => shared::CALLS_UNKNOWN,
            (false, true) => shared::CALLS_PATCHED,
            (false, false) => shared::CALLS_NONE,
        };
        let part = |run: Run| Piece::text(store, image, run);
        let places = ImagePlaces {
            low: image.low,
            high: image.high,
            stubs: Piece::stubs(store, image)?,
            parts: image
                .rewritten_runs(shared::MAX_PARTS)
                .into_iter()
                .map(part)
                .collect::<io::Result<_>>()?,
            unreached: image
                .unreached
                .iter()
                .take(shared::MAX_UNREACHED)
                .map(|pages| (pages.start, pages.end))
                .collect(),
        };
        Ok(Self { calls, tells_all: false, image: Some(places) })
    }

    /// Reads a note back; `None` for anything else, and where the store has lost a piece.
    pub fn from_bytes(store: &Store, bytes: &[u8]) -> Option<Self> {
        let note: Self = serde_json::from_slice(bytes).ok()?;
        let is_whole = |piece: &Piece| {
            let aligned =
                piece.bytes.is_multiple_of(PAGE_BYTES) && piece.address.is_multiple_of(PAGE_BYTES);
            let length = store
                .open_content(piece.content())
                .ok()
                .and_then(|file| Some(file.metadata().ok()?.len()));
            aligned && length == Some(piece.bytes)
        };
        let few = |image: &ImagePlaces| image.unreached.len() <= shared::MAX_UNREACHED;
        let usable = note.image.iter().all(|image| {
            few(image)
                && image.parts.len() <= shared::MAX_PARTS
                && image.parts.iter().chain([&image.stubs]).all(is_whole)
        });
        usable.then_some(note)
    }
}
