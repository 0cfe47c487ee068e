//! The store's note on a file that was examined for system calls. It says where the patched pieces
//! go, and the content of each. So a piece is read once, directly into the memory that processes
//! attach.

use retake_kernel::shared;
use retake_patch::{
    Image, Options, PAGE_BYTES, Placement, Run, SiteKind, UnpatchedReason, Verdict, examine,
    is_missed, tells_all,
};
use retake_recording::{ContentId, Store};
use serde::{Deserialize, Serialize};
use std::io;

/// The result of examining a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ImageNote {
    /// One of `shared::CALLS_*`.
    pub calls: u32,
    /// Whether all synchronisation of its threads is known and in order.
    pub tells_all: bool,
    /// The image, if there is one.
    pub image: Option<ImagePlaces>,
}

/// The place of an image, in link-time addresses.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ImagePlaces {
    /// The lowest address of the file's segments.
    pub low: u64,
    /// The end of the file's segments.
    pub high: u64,
    pub stubs: Piece,
    /// The patched text, at most `shared::MAX_PARTS` pieces.
    pub parts: Vec<Piece>,
    /// The ranges of pages that must not be executed unnoticed, at most `shared::MAX_UNREACHED`.
    pub unreached: Vec<(u64, u64)>,
}

/// A piece of an image, in whole pages.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// The file offset of the mapping that contains this piece.
    pub text_offset: u64,
    /// The size of that mapping.
    pub text_bytes: u64,
    /// The offset of this piece in that mapping.
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

    /// The content under which the store has the piece's bytes.
    pub fn content(&self) -> ContentId {
        ContentId(self.content)
    }
}

impl ImageNote {
    /// Examines a file and stores its image. A file that is no well-formed program may make any
    /// call.
    pub fn examine(
        store: &Store,
        file: &[u8],
        placement: Placement,
        options: &Options,
    ) -> io::Result<Self> {
        match examine(file, placement, options) {
            Ok(Verdict::Patched(image)) if image.segments.len() <= shared::MAX_PARTS => {
                let misses = || image.refused.iter().any(|site| is_missed(file, site));
                let tells_all = options.sections && tells_all(file) && !misses();
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

    /// Reads a note. Returns `None` if it is malformed, or if the store has lost a piece.
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
