//! The object store that holds segments: a directory.

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
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use tokio::runtime::Runtime;

/// Objects by name under one prefix.
#[derive(Clone)]
pub struct Store {
    runtime: Arc<Runtime>,
    objects: Arc<dyn ObjectStore>,
    /// What DataFusion knows the store by.
    scheme: ObjectStoreUrl,
    prefix: Path,
    directory: PathBuf,
}

impl fmt::Debug for Store {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Store({}{})", self.scheme.as_str(), self.prefix)
    }
}

impl Store {
    /// Opens a directory, which is made when missing.
    pub fn open(place: &str) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|why| Failure::new(format!("cannot start threads: {why}")))?;
        let directory = PathBuf::from(place);
        let fail = |why: std::io::Error| Failure::file(&directory, why);
        fs::create_dir_all(&directory).map_err(fail)?;
        let directory = path::absolute(&directory).and_then(fs::canonicalize).map_err(fail)?;
        let prefix = Path::from_absolute_path(&directory).map_err(|why| Failure::file(&directory, why))?;
        Ok(Self {
            runtime: Arc::new(runtime),
            objects: Arc::new(LocalFileSystem::new()),
            scheme: ObjectStoreUrl::local_filesystem(),
            prefix,
            directory,
        })
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

    /// The address of an object.
    #[must_use]
    pub fn address(&self, name: &str) -> String {
        format!("{}{}", self.scheme.as_str(), self.path(name))
    }

    /// The path of an object.
    #[must_use]
    pub fn place(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// Writes an object, all of it or nothing, and waits until the disk has it.
    pub fn put(&self, name: &str, bytes: Vec<u8>) -> Outcome {
        let put = self.wait(self.objects.put(&self.path(name), PutPayload::from(bytes)));
        put.map_err(|why| self.failure(name, why))?;
        let path = self.directory.join(name);
        let parent = path.parent().unwrap_or(&self.directory);
        let synced = [path.as_path(), parent, &self.directory]
            .into_iter()
            .try_for_each(|path| File::open(path).and_then(|file| file.sync_all()));
        synced.map_err(|why| Failure::file(&path, why))
    }

    /// Reads an object; `None` when there is none.
    pub fn get(&self, name: &str) -> Outcome<Option<Vec<u8>>> {
        let path = self.path(name);
        let read = self.wait(async { self.objects.get(&path).await?.bytes().await });
        match read {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(why) => Err(self.failure(name, why)),
        }
    }

    /// Deletes an object, which may be missing.
    pub fn delete(&self, name: &str) -> Outcome {
        match self.wait(self.objects.delete(&self.path(name))) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
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

    fn failure(&self, name: &str, why: object_store::Error) -> Failure {
        Failure::new(format!("{}: {why}", self.place(name)))
    }
}
