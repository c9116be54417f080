//! The object store that holds segments: a directory, or a bucket.

mod bucket;

use std::fmt;
use std::fs::{self, File};
use std::future::Future;
use std::path::{self, PathBuf};
use std::sync::Arc;

use datafusion::datasource::object_store::ObjectStoreUrl;
use futures::TryStreamExt;
use heapwise_capture::failure::{Failure, Outcome};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion};
use tokio::runtime::Runtime;

/// Stack of the threads that plan and run queries.
const STACK_BYTES: usize = 32 << 20;

/// Objects by name under one prefix.
#[derive(Clone)]
pub struct Store {
    runtime: Arc<Runtime>,
    objects: Arc<dyn ObjectStore>,
    /// What DataFusion knows the store by.
    scheme: ObjectStoreUrl,
    prefix: Path,
    place: Place,
}

/// Where the objects are.
#[derive(Debug, Clone)]
enum Place {
    /// Below a directory of this machine.
    Directory(PathBuf),
    /// In a bucket, whose objects have addresses that begin with `base`.
    Bucket { base: String },
}

/// The version of an object that a reader saw; nothing for an object of a directory, where the
/// lock of the data directory keeps other writers away.
pub type Version = Option<UpdateVersion>;

/// What became of a conditional replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replacement {
    /// The object has the new contents, with this version.
    Done(Version),
    /// Another writer replaced the object before.
    Refused,
}

impl fmt::Debug for Store {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Store({}{})", self.scheme.as_str(), self.prefix)
    }
}

impl Store {
    /// Opens a directory, which is made when missing, or a bucket (`s3://BUCKET/PREFIX`), which
    /// must exist. `endpoint` is the address of a server other than Amazon's.
    pub fn open(place: &str, endpoint: Option<&str>) -> Outcome<Self> {
        if let Some(opened) = bucket::open(place, endpoint) {
            return opened;
        }
        let directory = PathBuf::from(place);
        let fail = |why: std::io::Error| Failure::file(&directory, why);
        fs::create_dir_all(&directory).map_err(fail)?;
        let directory = path::absolute(&directory).and_then(fs::canonicalize).map_err(fail)?;
        let prefix = Path::from_absolute_path(&directory).map_err(|why| Failure::file(&directory, why))?;
        let objects = Arc::new(LocalFileSystem::new());
        Self::new(objects, ObjectStoreUrl::local_filesystem(), prefix, Place::Directory(directory))
    }

    fn new(
        objects: Arc<dyn ObjectStore>,
        scheme: ObjectStoreUrl,
        prefix: Path,
        place: Place,
    ) -> Outcome<Self> {
        // Plans of long queries are deep.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().thread_stack_size(STACK_BYTES).enable_all().build();
        let runtime = runtime.map_err(|why| Failure::new(format!("cannot start threads: {why}")))?;
        Ok(Self { runtime: Arc::new(runtime), objects, scheme, prefix, place })
    }

    /// Runs a future to its end.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// The store itself, and the address that DataFusion finds it by.
    #[must_use]
    pub fn objects(&self) -> (&ObjectStoreUrl, Arc<dyn ObjectStore>) {
        (&self.scheme, Arc::clone(&self.objects))
    }

    /// The address of an object for DataFusion.
    #[must_use]
    pub fn address(&self, name: &str) -> String {
        format!("{}{}", self.scheme.as_str(), self.path(name))
    }

    /// The path of an object, or its address in a bucket.
    #[must_use]
    pub fn place(&self, name: &str) -> String {
        match &self.place {
            Place::Directory(directory) => directory.join(name).display().to_string(),
            Place::Bucket { .. } => self.address(name),
        }
    }

    /// The address of an object for programs that speak HTTP; `None` for a directory.
    #[must_use]
    pub fn web_address(&self, name: &str) -> Option<String> {
        match &self.place {
            Place::Directory(_) => None,
            Place::Bucket { base } => Some(format!("{base}/{}", self.path(name))),
        }
    }

    /// Writes an object, all of it or nothing, and waits until the disk has it.
    pub fn put(&self, name: &str, bytes: Vec<u8>) -> Outcome {
        let put = self.wait(self.objects.put(&self.path(name), PutPayload::from(bytes)));
        put.map_err(|why| self.failure(name, why))?;
        self.sync(name)
    }

    /// Writes an object if its version is still `seen` (none: it does not exist). A directory has
    /// one writer and no versions.
    pub fn replace(&self, name: &str, bytes: Vec<u8>, seen: &Version) -> Outcome<Replacement> {
        if let Place::Directory(_) = self.place {
            return self.put(name, bytes).map(|()| Replacement::Done(None));
        }
        let mode = seen.clone().map_or(PutMode::Create, PutMode::Update);
        let contents = PutPayload::from(bytes.clone());
        match self.wait(self.objects.put_opts(&self.path(name), contents, mode.into())) {
            Ok(put) => Ok(Replacement::Done(Some(put.into()))),
            // A request may be repeated after its answer was lost.
            Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => match self.get(name)? {
                Some((found, version)) if found == bytes => Ok(Replacement::Done(version)),
                _ => Ok(Replacement::Refused),
            },
            Err(why) => Err(self.failure(name, why)),
        }
    }

    /// Reads an object; `None` when there is none.
    pub fn get(&self, name: &str) -> Outcome<Option<(Vec<u8>, Version)>> {
        let path = self.path(name);
        let read = self.wait(async {
            let found = self.objects.get(&path).await?;
            let version =
                UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
            Ok((found.bytes().await?, version))
        });
        match read {
            Ok((bytes, version)) => {
                let is_bucket = matches!(self.place, Place::Bucket { .. });
                Ok(Some((bytes.to_vec(), is_bucket.then_some(version))))
            }
            Err(Error::NotFound { .. }) => Ok(None),
            Err(why) => Err(self.failure(name, why)),
        }
    }

    /// Deletes an object, which may be missing.
    pub fn delete(&self, name: &str) -> Outcome {
        match self.wait(self.objects.delete(&self.path(name))) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(why) => Err(self.failure(name, why)),
        }
    }

    /// The names of all objects.
    pub fn list(&self) -> Outcome<Vec<String>> {
        let listed = self.wait(self.objects.list(Some(&self.prefix)).try_collect::<Vec<_>>());
        let listed = listed.map_err(|why| self.failure("", why))?;
        let name = |path: &Path| -> Option<String> {
            let parts: Vec<_> =
                path.prefix_match(&self.prefix)?.map(|part| part.as_ref().to_owned()).collect();
            Some(parts.join("/"))
        };
        Ok(listed.iter().filter_map(|object| name(&object.location)).collect())
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Waits until the disk has a file of a directory and its name.
    fn sync(&self, name: &str) -> Outcome {
        let Place::Directory(directory) = &self.place else { return Ok(()) };
        let path = directory.join(name);
        let parent = path.parent().unwrap_or(directory);
        let synced = [path.as_path(), parent, directory]
            .into_iter()
            .try_for_each(|path| File::open(path).and_then(|file| file.sync_all()));
        synced.map_err(|why| Failure::file(&path, why))
    }

    fn failure(&self, name: &str, why: Error) -> Failure {
        Failure::new(format!("{}: {why}", self.place(name)))
    }
}
