//! Inspecting files, and changing anything but their data. Paths are first opened with `O_PATH`.
//! All that follows acts on the object found below the root.

use libc as sys;
use retake_trace_format::TracedCall;
use rustix::fs::{Access, AtFlags, CWD, Gid, Mode, OFlags, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::data::done;
use super::{Done, Effect, Executor, Failure, file_of};
use crate::action::{Action, Place, StatusLayout, Target, Time};
use crate::calls::Arguments;
use crate::handle::Handle;
use crate::root::object_path;
use crate::verify::{Compared, Listing, Status, entries, status_differences};

/// The largest value of an extended attribute, and of the list of their names.
const MAXIMUM_ATTRIBUTE_BYTES: usize = 64 << 10;

/// The most names that are shown when a listing differs.
const MAXIMUM_NAMES: usize = 8;

impl Executor<'_> {
    pub(super) fn object(&mut self, call: &TracedCall, action: &Action) -> Done {
        match action {
            Action::List { handle, has_type } => self.list(call, handle, *has_type),
            Action::Status { target, layout, buffer, counts_links } => {
                self.status(call, target, *layout, *buffer, *counts_links)
            }
            Action::Access { target, mode } => {
                let object = self.places.find(target)?;
                let access = Access::from_bits_retain(*mode & 7);
                Ok(done(rustix::fs::accessat(CWD, object_path(&object), access, AtFlags::EACCESS))?)
            }
            Action::ReadLink { target, buffer } => self.read_link(call, target, *buffer),
            Action::Enter { target: Target::Place(place) } => {
                let directory = self.places.open_place(
                    place,
                    OFlags::PATH | OFlags::DIRECTORY,
                    Mode::empty(),
                )?;
                Ok(done(rustix::fs::accessat(
                    CWD,
                    object_path(&directory),
                    Access::EXEC_OK,
                    AtFlags::EACCESS,
                ))?)
            }
            Action::SetMode { target, mode } => {
                let object = self.places.find(target)?;
                Ok(done(rustix::fs::chmod(object_path(&object), Mode::from_raw_mode(*mode)))?)
            }
            Action::SetOwner { target, user, group } => self.set_owner(call, target, *user, *group),
            Action::SetTimes { target, times } => self.set_times(target, times.as_ref()),
            Action::WriteMapped { place, offset } => self.write_mapped(call, place, *offset),
            Action::GetAttribute { .. }
            | Action::ListAttributes { .. }
            | Action::SetAttribute { .. }
            | Action::RemoveAttribute { .. } => self.attribute(call, action),
            _ => Ok(Effect::success()),
        }
    }

    fn status(
        &self,
        call: &TracedCall,
        target: &Target,
        layout: StatusLayout,
        buffer: u8,
        counts_links: bool,
    ) -> Done {
        let actual = Status::of(&match target {
            Target::Handle(handle) => rustix::fs::fstat(file_of(handle)?)?,
            Target::Place(place) => self.places.stat(place)?,
        });
        let mut effect = Effect::returned(0);
        let expected =
            Arguments(call).output(buffer).and_then(|bytes| Status::parse(layout, bytes));
        if let Some(expected) = expected.filter(|_| self.compares_buffers()) {
            let compared = Compared { owners: self.places.is_root(), links: counts_links };
            effect.differences = status_differences(&expected, &actual, compared);
        }
        Ok(effect)
    }

    fn read_link(&self, call: &TracedCall, target: &Target, buffer: u8) -> Done {
        let object = self.places.find(target)?;
        let text = match rustix::fs::readlinkat(&object, "", Vec::new()) {
            // `readlinkat` fails with `ENOENT` here if the object is no link.
            Err(Errno::NOENT) => return Err(Errno::INVAL.into()),
            text => text?.into_bytes(),
        };
        let size = Arguments(call).uint(usize::from(buffer) + 1) as usize;
        let text = &text[..text.len().min(size)];
        let mut effect = Effect::returned(text.len() as i64);
        let expected = Arguments(call).output(buffer).filter(|_| self.compares_buffers());
        if let Some(expected) =
            expected.filter(|expected| *expected != &text[..text.len().min(expected.len())])
        {
            let shown = |text: &[u8]| format!("link to {}", String::from_utf8_lossy(text));
            effect.differences.push((shown(expected), shown(text)));
        }
        Ok(effect)
    }

    fn list(&self, call: &TracedCall, handle: &Handle, has_type: bool) -> Done {
        let file = file_of(handle)?;
        if call.failed() {
            // The listing only has to fail again: a file is no directory, and a removed directory
            // has no entries.
            Listing::read(file)?;
            return Ok(Effect::success());
        }
        if !self.compares_buffers() {
            return Ok(Effect::success());
        }
        let mut listing = handle.listing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if listing.is_none() {
            *listing = Some(Listing::read(file)?);
        }
        let Some(current) = listing.as_mut() else {
            return Ok(Effect::success());
        };
        let mut effect = Effect::success();
        let is_there =
            |name: &[u8]| rustix::fs::statat(file, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if call.result == 0 {
            let extra: Vec<_> = current
                .rest()
                .into_iter()
                .filter(|name| is_there(name))
                .map(<[u8]>::to_vec)
                .collect();
            if !extra.is_empty() {
                effect.differences.push((String::from("the end of the directory"), names(&extra)));
            }
            *listing = None;
            return Ok(effect);
        }
        let bytes = Arguments(call).output(1).unwrap_or_default();
        let (mut missing, changed) = current.take(entries(bytes, has_type));
        // Entries made during the listing may or may not be listed.
        missing.retain(|entry| !is_there(&entry.name));
        let missing: Vec<_> = missing.into_iter().chain(changed).map(|entry| entry.name).collect();
        if !missing.is_empty() {
            effect
                .differences
                .push((names(&missing), String::from("missing there, or of another type")));
        }
        Ok(effect)
    }

    fn set_owner(&self, call: &TracedCall, target: &Target, user: u32, group: u32) -> Done {
        if !self.places.is_root() && !call.failed() {
            return Err(Failure::Skipped("owners, which only root can set"));
        }
        let object = self.places.find(target)?;
        let user = (user != u32::MAX).then(|| Uid::from_raw(user));
        let group = (group != u32::MAX).then(|| Gid::from_raw(group));
        Ok(done(rustix::fs::chownat(&object, "", user, group, AtFlags::EMPTY_PATH))?)
    }

    fn set_times(&self, target: &Target, times: Option<&[Time; 2]>) -> Done {
        let object = self.places.find(target)?;
        let spec = |time: Time| rustix::fs::Timespec {
            tv_sec: time.seconds,
            tv_nsec: time.nanoseconds as _,
        };
        let now = [Time { seconds: 0, nanoseconds: sys::UTIME_NOW }; 2];
        let [last_access, last_modification] = times.copied().unwrap_or(now).map(spec);
        let times = Timestamps { last_access, last_modification };
        Ok(done(rustix::fs::utimensat(&object, "", &times, AtFlags::EMPTY_PATH))?)
    }

    /// Repeats writes through a mapping. A mapping writes nothing beyond the end of the file.
    fn write_mapped(&self, call: &TracedCall, place: &Place, offset: u64) -> Done {
        let file =
            self.places.open_place(place, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty())?;
        let size = rustix::fs::fstat(&file)?.st_size as u64;
        let data = call.buffers.first().map(|buffer| buffer.data.as_slice()).unwrap_or_default();
        let room = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut data = &data[..data.len().min(room)];
        let mut at = offset;
        while !data.is_empty() {
            let written = rustix::io::pwrite(&file, data, at)?;
            at += written as u64;
            data = &data[written..];
        }
        Ok(Effect::success())
    }

    fn attribute(&self, call: &TracedCall, action: &Action) -> Done {
        let missing = |error| match error {
            Errno::OPNOTSUPP if !call.failed() => {
                Failure::Skipped("extended attributes that this file system does not keep")
            }
            error => Failure::Refused(error),
        };
        match action {
            Action::GetAttribute { target, name, capacity } => {
                let object = self.places.find(target)?;
                let mut value = vec![0; MAXIMUM_ATTRIBUTE_BYTES];
                let count =
                    rustix::fs::getxattr(object_path(&object), name.as_slice(), &mut value[..])
                        .map_err(missing)?;
                if *capacity > 0 && (count as u64) > *capacity {
                    return Err(Errno::RANGE.into());
                }
                let mut effect = Effect::returned(count as i64);
                let expected =
                    Arguments(call).output(2).filter(|_| *capacity > 0 && self.compares_buffers());
                if let Some(expected) =
                    expected.filter(|expected| *expected != &value[..count.min(expected.len())])
                {
                    let shown = |value: &[u8]| {
                        format!(
                            "value {:?}",
                            value[..value.len().min(64)].escape_ascii().to_string()
                        )
                    };
                    effect.differences.push((shown(expected), shown(&value[..count])));
                }
                Ok(effect)
            }
            Action::ListAttributes { target, capacity } => {
                self.list_attributes(call, target, *capacity)
            }
            Action::SetAttribute { target, name, flags } => {
                let object = self.places.find(target)?;
                let value = Arguments(call)
                    .input(2)
                    .map(|buffer| buffer.data.as_slice())
                    .unwrap_or_default();
                let flags = XattrFlags::from_bits_retain(*flags);
                Ok(done(rustix::fs::setxattr(object_path(&object), name.as_slice(), value, flags))
                    .map_err(missing)?)
            }
            Action::RemoveAttribute { target, name } => {
                let object = self.places.find(target)?;
                Ok(done(rustix::fs::removexattr(object_path(&object), name.as_slice()))
                    .map_err(missing)?)
            }
            _ => Ok(Effect::success()),
        }
    }

    /// Lists the attributes that programs set. Those of the system depend on the machine.
    fn list_attributes(&self, call: &TracedCall, target: &Target, capacity: u64) -> Done {
        let object = self.places.find(target)?;
        let mut list = vec![0; MAXIMUM_ATTRIBUTE_BYTES];
        let count = match rustix::fs::listxattr(object_path(&object), &mut list[..]) {
            Err(Errno::OPNOTSUPP) if !call.failed() => {
                return Err(Failure::Skipped(
                    "extended attributes that this file system does not keep",
                ));
            }
            listed => listed?,
        };
        let own = |list: &[u8]| {
            let names = list.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
            let mut names: Vec<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
            names.sort();
            names
        };
        let mut effect = Effect::success();
        if let Some(expected) = Arguments(call)
            .output(1)
            .filter(|_| capacity > 0 && !call.failed() && self.compares_buffers())
        {
            let (expected, actual) = (own(expected), own(&list[..count]));
            if expected != actual {
                effect.differences.push((names(&expected), names(&actual)));
            }
        }
        Ok(effect)
    }
}

fn names(names: &[Vec<u8>]) -> String {
    let shown: Vec<_> =
        names.iter().take(MAXIMUM_NAMES).map(|name| String::from_utf8_lossy(name)).collect();
    let more = if names.len() > MAXIMUM_NAMES {
        format!(" and {} more", names.len() - MAXIMUM_NAMES)
    } else {
        String::new()
    };
    format!("{}{more}", shown.join(", "))
}
