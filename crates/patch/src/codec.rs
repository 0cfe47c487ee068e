//! Verdicts as bytes, for a cache on disk.
//!
//! Layout, little-endian: the magic (8 bytes), format version (4), patcher version (4), XXH3 of the payload (8), the payload. Nothing else may follow. Reading
//! checks everything: a damaged or hostile cache gives an error, and then the image is simply built anew. A cache that somebody else
//! can write must not be trusted at all, whatever it decodes to: it holds code.

use crate::bytes::{array_at, u32_at, u64_at};
use crate::error::CacheError;
use crate::image::{Image, ImageSegment, Refusal, RefusedSite, Site, SiteKind, StubInfo, StubPoint, Unpatched, UnpatchedReason, Verdict};
use crate::{PAGE_BYTES, PATCHER_VERSION};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 8] = *b"RETKIMG\0";
const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;

const REASONS: [UnpatchedReason; 5] = [
    UnpatchedReason::NoSites,
    UnpatchedReason::AllRefused,
    UnpatchedReason::OutOfReach,
    UnpatchedReason::TooManyPatterns,
    UnpatchedReason::NotWorthwhile,
];
const REFUSALS: [Refusal; 6] =
    [Refusal::SignalReturn, Refusal::NoRoom, Refusal::JumpTarget, Refusal::SuspectFunction, Refusal::NoFunctionTable, Refusal::NotWanted];

impl Verdict {
    /// The verdict as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        match self {
            Verdict::Unpatched(unpatched) => {
                let reason = REASONS.iter().position(|reason| *reason == unpatched.reason).expect("every reason is listed");
                payload.extend([0, reason as u8, u8::from(unpatched.unknown_calls)]);
                put_refused(&mut payload, &unpatched.refused);
            }
            Verdict::Patched(image) => {
                payload.extend([1, 0, u8::from(image.unknown_calls)]);
                put_refused(&mut payload, &image.refused);
                put_image(&mut payload, image);
            }
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
        bytes.extend(MAGIC);
        bytes.extend(FORMAT_VERSION.to_le_bytes());
        bytes.extend(PATCHER_VERSION.to_le_bytes());
        bytes.extend(xxh3_64(&payload).to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    /// Reads a verdict back.
    ///
    /// # Errors
    /// Anything but bytes written by this very version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CacheError> {
        if array_at(bytes, 0) != Some(MAGIC) {
            return Err(CacheError::NotAnImage);
        }
        let (Some(format), Some(patcher), Some(hash)) = (u32_at(bytes, 8), u32_at(bytes, 12), u64_at(bytes, 16)) else {
            return Err(CacheError::NotAnImage);
        };
        if format != FORMAT_VERSION || patcher != PATCHER_VERSION {
            return Err(CacheError::OtherVersion { format, patcher });
        }
        let payload = &bytes[HEADER_BYTES..];
        if xxh3_64(payload) != hash {
            return Err(CacheError::Damaged);
        }
        Reader { payload, position: 0 }.verdict()
    }
}

fn put_count(payload: &mut Vec<u8>, count: usize) {
    payload.extend((count as u64).to_le_bytes());
}

fn put_refused(payload: &mut Vec<u8>, refused: &[RefusedSite]) {
    put_count(payload, refused.len());
    for site in refused {
        let reason = REFUSALS.iter().position(|reason| *reason == site.reason).expect("every refusal is listed");
        payload.extend([site.kind.index() as u8, reason as u8]);
        payload.extend(site.address.to_le_bytes());
    }
}

fn put_image(payload: &mut Vec<u8>, image: &Image) {
    for number in [image.stub_address, image.low, image.high] {
        payload.extend(number.to_le_bytes());
    }
    put_count(payload, image.stubs.len());
    payload.extend(&image.stubs);
    put_count(payload, image.segments.len());
    for segment in &image.segments {
        payload.extend(segment.file_offset.to_le_bytes());
        payload.extend(segment.address.to_le_bytes());
        put_count(payload, segment.bytes.len());
        payload.extend(&segment.bytes);
    }
    put_count(payload, image.sites.len());
    for site in &image.sites {
        payload.extend([site.kind.index() as u8, site.length, site.patch_length]);
        payload.extend(site.address.to_le_bytes());
        payload.extend(site.patch_address.to_le_bytes());
        // No padding is at address 0, which is the ELF header or not mapped.
        payload.extend(site.pad_address.unwrap_or(0).to_le_bytes());
        payload.extend(site.stub.offset.to_le_bytes());
        payload.extend(site.stub.length.to_le_bytes());
        payload.extend(site.stub.continue_at.to_le_bytes());
        put_count(payload, site.stub.points.len());
        for point in &site.stub.points {
            payload.extend(point.offset.to_le_bytes());
            payload.extend(point.text_address.to_le_bytes());
        }
    }
}

struct Reader<'data> {
    payload: &'data [u8],
    position: usize,
}

type Read<T> = Result<T, CacheError>;

impl<'data> Reader<'data> {
    fn verdict(mut self) -> Read<Verdict> {
        let patched = self.flag()?;
        let reason = usize::from(self.byte()?);
        let unknown_calls = self.flag()?;
        let refused = self.list(10, Self::refused)?;
        let verdict = if patched {
            Verdict::Patched(self.image(refused, unknown_calls)?)
        } else {
            let reason = *REASONS.get(reason).ok_or_else(|| self.malformed("unknown reason"))?;
            Verdict::Unpatched(Unpatched { reason, refused, unknown_calls })
        };
        if self.position != self.payload.len() {
            return Err(self.malformed("bytes after the end"));
        }
        Ok(verdict)
    }

    fn image(&mut self, refused: Vec<RefusedSite>, unknown_calls: bool) -> Read<Image> {
        let (stub_address, low, high) = (self.page()?, self.page()?, self.page()?);
        let stubs = self.pages()?;
        let segments = self.list(24, |reader| Ok(ImageSegment { file_offset: reader.page()?, address: reader.page()?, bytes: reader.pages()? }))?;
        let sites = self.list(51, Self::site)?;
        let image = Image { segments, stub_address, stubs, low, high, sites, refused, unknown_calls };
        self.check(&image)?;
        Ok(image)
    }

    /// What every image built here satisfies, and its users rely on.
    fn check(&self, image: &Image) -> Read<()> {
        let inside = image.segments.iter().all(|segment| {
            let end = segment.address.checked_add(segment.bytes.len() as u64);
            segment.address >= image.low && end.is_some_and(|end| end <= image.high)
        });
        let apart = image.segments.windows(2).all(|pair| pair[0].address + pair[0].bytes.len() as u64 <= pair[1].address);
        if !inside || !apart || image.low >= image.high {
            return Err(self.malformed("segments out of place"));
        }
        let after = image.stub_address == image.high;
        let before = image.stub_address.wrapping_add(image.stubs.len() as u64) == image.low;
        if !(after || before) {
            return Err(self.malformed("stub area out of place"));
        }
        let mut end = 0;
        for site in &image.sites {
            let stub_end = u64::from(site.stub.offset) + u64::from(site.stub.length);
            if u64::from(site.stub.offset) < end || stub_end > image.stubs.len() as u64 {
                return Err(self.malformed("stubs out of order"));
            }
            end = stub_end;
        }
        Ok(())
    }

    fn refused(&mut self) -> Read<RefusedSite> {
        let kind = self.kind()?;
        let reason = usize::from(self.byte()?);
        let reason = *REFUSALS.get(reason).ok_or_else(|| self.malformed("unknown refusal"))?;
        Ok(RefusedSite { kind, reason, address: self.number()? })
    }

    fn site(&mut self) -> Read<Site> {
        let (kind, length, patch_length) = (self.kind()?, self.byte()?, self.byte()?);
        let (address, patch_address, pad) = (self.number()?, self.number()?, self.number()?);
        let (offset, stub_length) = (self.short()?, self.short()?);
        let continue_at = self.number()?;
        let points = self.list(12, |reader| Ok(StubPoint { offset: reader.short()?, text_address: reader.number()? }))?;
        let stub = StubInfo { offset, length: stub_length, continue_at, points };
        let pad_address = (pad != 0).then_some(pad);
        Ok(Site { kind, address, length, patch_address, patch_length, pad_address, stub })
    }

    fn malformed(&self, what: &'static str) -> CacheError {
        CacheError::Malformed { what, position: self.position }
    }

    fn take(&mut self, bytes: usize) -> Read<&'data [u8]> {
        let end = self.position.checked_add(bytes).ok_or_else(|| self.malformed("impossible length"))?;
        let taken = self.payload.get(self.position..end).ok_or_else(|| self.malformed("too short"))?;
        self.position = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }

    fn flag(&mut self) -> Read<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed("neither true nor false")),
        }
    }

    fn short(&mut self) -> Read<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    fn number(&mut self) -> Read<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    fn page(&mut self) -> Read<u64> {
        let address = self.number()?;
        if !address.is_multiple_of(PAGE_BYTES) {
            return Err(self.malformed("not page aligned"));
        }
        Ok(address)
    }

    fn kind(&mut self) -> Read<SiteKind> {
        let index = usize::from(self.byte()?);
        SiteKind::ALL.get(index).copied().ok_or_else(|| self.malformed("unknown kind of site"))
    }

    fn pages(&mut self) -> Read<Vec<u8>> {
        let length = self.page()?;
        let length = usize::try_from(length).map_err(|_| self.malformed("impossible length"))?;
        Ok(self.take(length)?.to_vec())
    }

    /// A count, and so many elements of at least `least_bytes` each.
    fn list<T>(&mut self, least_bytes: usize, mut read: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let count = self.number()?;
        let left = (self.payload.len() - self.position) / least_bytes;
        if count > left as u64 {
            return Err(self.malformed("count exceeds what is left"));
        }
        (0..count).map(|_| read(self)).collect()
    }
}
