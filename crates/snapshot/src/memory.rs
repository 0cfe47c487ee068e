//! The memory of a process under ptrace, with the traps and probes in its text. Reads show the
//! memory without them.

use crate::probe::{Plan, Probe, Wanted};
use crate::remote;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// The instruction that stops a thread.
pub const TRAP: u8 = 0xcc;

const PAGE_BYTES: u64 = 4096;
const READ_WRITE_EXECUTE: u64 = 7;
/// MAP_SHARED, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE. Not private: the runtime compares writable
/// private memory with the recorded memory.
const FREE_SHARED_ANONYMOUS: u64 = 0x10_0021;
const NO_DESCRIPTOR: u64 = u64::MAX;

/// The memory of a process.
#[derive(Debug)]
pub struct Memory {
    file: File,
    /// The address and the original byte of each trap in memory.
    planted: BTreeMap<u64, u8>,
    probes: Vec<Probe>,
    /// The pages mapped for stubs.
    probe_pages: BTreeSet<u64>,
}

impl Memory {
    /// Returns the memory of a traced process without traps.
    ///
    /// # Errors
    /// The process is gone.
    pub fn of(pid: i32) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        Ok(Self {
            file,
            planted: BTreeMap::new(),
            probes: Vec::new(),
            probe_pages: BTreeSet::new(),
        })
    }

    // ---- contents ----

    /// Fills `bytes` with the actual memory, traps included.
    ///
    /// # Errors
    /// Some of the memory is not mapped.
    pub fn read_as_it_is(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, address)
    }

    /// Reads memory without our traps. Returns how many bytes could be read.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            match self.file.read_at(&mut bytes[done..], address.wrapping_add(done as u64)) {
                Ok(count) if count > 0 => done += count,
                _ => break,
            }
        }
        self.take_traps_out(address, &mut bytes[..done]);
        done
    }

    /// Replaces our traps in bytes read at `address`. They can be in data, too: programs may
    /// execute memory that they can write.
    pub fn take_traps_out(&self, address: u64, bytes: &mut [u8]) {
        let planted = self.planted.range(address..address.saturating_add(bytes.len() as u64));
        let traps = planted.map(|(at, original)| (*at, TRAP, *original));
        let end = address.saturating_add(bytes.len() as u64);
        let is_near = |probe: &&Probe| {
            let plan = &probe.plan;
            plan.address < end && address < plan.address + plan.original().len() as u64
        };
        let jumps = self.probes.iter().filter(is_near).flat_map(|probe| {
            let plan = &probe.plan;
            let bytes = plan.patch().into_iter().zip(plan.original());
            (plan.address..).zip(bytes).map(|(at, (ours, original))| (at, ours, *original))
        });
        for (at, ours, original) in traps.chain(jumps) {
            let byte = at.checked_sub(address).and_then(|index| bytes.get_mut(index as usize));
            // The program may have overwritten the trap, or mapped something else there.
            if let Some(byte) = byte.filter(|byte| **byte == ours) {
                *byte = original;
            }
        }
    }

    /// Returns a word of memory; `None` if it is not mapped.
    pub fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read(address, &mut bytes) == bytes.len()).then(|| u64::from_le_bytes(bytes))
    }

    /// Writes memory, read-only pages included. The bytes under traps stay the same.
    ///
    /// # Errors
    /// The memory is not mapped.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, address)
    }

    /// Writes what the program is to see there, also under traps.
    ///
    /// # Errors
    /// The memory is not mapped.
    pub fn poke(&mut self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(address, bytes)?;
        let under: Vec<u64> = self
            .planted
            .range(address..address.saturating_add(bytes.len() as u64))
            .map(|(at, _)| *at)
            .collect();
        for at in under {
            self.planted.insert(at, bytes[(at - address) as usize]);
            self.write(at, &[TRAP])?;
        }
        Ok(())
    }

    /// Whether the page of an address was mapped for stubs.
    pub fn is_probe_page(&self, address: u64) -> bool {
        self.probe_pages.contains(&(address & !0xfff))
    }

    /// Plants exactly these traps.
    pub fn plant(&mut self, wanted: &BTreeSet<u64>) {
        let stale: Vec<u64> =
            self.planted.keys().copied().filter(|address| !wanted.contains(address)).collect();
        for address in stale {
            self.unplant(address);
        }
        for &address in wanted {
            self.plant_one(address);
        }
    }

    fn plant_one(&mut self, address: u64) {
        let mut original = [0];
        if self.planted.contains_key(&address) || self.read(address, &mut original) != 1 {
            return;
        }
        if self.write(address, &[TRAP]).is_ok() {
            self.planted.insert(address, original[0]);
        }
    }

    pub(crate) fn unplant(&mut self, address: u64) {
        if let Some(original) = self.planted.remove(&address) {
            self.put_back(address, &[TRAP], &[original]);
        }
    }

    /// Puts back the bytes under a trap or a jump, unless the trap is gone: the memory may have
    /// been unmapped or overwritten.
    fn put_back(&self, address: u64, ours: &[u8], original: &[u8]) {
        let mut now = vec![0; ours.len()];
        if self.read_as_it_is(address, &mut now).is_ok() && now == ours {
            let _ = self.write(address, original);
        }
    }

    /// Plants a probe with the help of the stopped thread `tid`. Returns false if it cannot be
    /// planted.
    ///
    /// # Errors
    /// The thread is gone.
    pub fn plant_probe(&mut self, tid: i32, plan: &Rc<Plan>, wanted: &Wanted) -> io::Result<bool> {
        let Some((probe, parts)) = Probe::build(plan, wanted) else { return Ok(false) };
        let mut now = vec![0; plan.original().len()];
        if self.read(plan.address, &mut now) != now.len() || now != plan.original() {
            return Ok(false);
        }
        if !self.probe_pages.contains(&plan.page) {
            let arguments =
                [plan.page, PAGE_BYTES, READ_WRITE_EXECUTE, FREE_SHARED_ANONYMOUS, NO_DESCRIPTOR];
            if remote::call(tid, libc::SYS_mmap, arguments)?.0 as u64 != plan.page {
                return Ok(false);
            }
            self.probe_pages.insert(plan.page);
        }
        for (address, bytes) in parts {
            self.write(address, &bytes)?;
        }
        self.write(plan.address, &plan.patch())?;
        self.probes.push(probe);
        Ok(true)
    }

    /// Whether a probe is at an address.
    pub fn has_probe(&self, address: u64) -> bool {
        self.probes.iter().any(|probe| probe.plan.address == address)
    }

    /// Removes all probes from the text. No thread may be in a stub.
    pub fn remove_probes(&mut self) {
        for probe in std::mem::take(&mut self.probes) {
            self.put_back(probe.plan.address, &probe.plan.patch(), probe.plan.original());
        }
    }

    /// Removes all probes and their stubs, as if there had never been any.
    ///
    /// # Errors
    /// The stopped thread is gone.
    pub fn forget_probes(&mut self, tid: i32) -> io::Result<()> {
        self.remove_probes();
        for page in std::mem::take(&mut self.probe_pages) {
            remote::call(tid, libc::SYS_munmap, [page, PAGE_BYTES, 0, 0, 0])?;
        }
        Ok(())
    }
    /// The byte under a trap.
    pub fn under_trap(&self, address: u64) -> Option<u8> {
        self.planted.get(&address).copied()
    }

    /// The probes in the text.
    pub fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// The original bytes under all traps and probes, by address. Written to a copy of the memory,
    /// they remove traps and probes there.
    pub fn covered(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let probes = self.probes.iter().map(|probe| (probe.plan.address, probe.plan.original()));
        let traps =
            self.planted.iter().map(|(address, byte)| (*address, std::slice::from_ref(byte)));
        probes.chain(traps)
    }
}
