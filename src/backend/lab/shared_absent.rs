//! The shared cache of a build without the feature `cache`: there is none.

use std::borrow::Cow;
use std::path::Path;

use thiserror::Error;

use crate::backend::{AnswerDifference, CacheReport, UnusableAnswer};
use crate::model::Advice;
use crate::model::{self, MissingFeature};

#[derive(Debug, Error)]
#[error(transparent)]
pub struct CacheError(#[from] MissingFeature);

impl Advice for CacheError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::from(MissingFeature::HINT.to_string()))
    }
}

pub enum SharedCache {}

impl SharedCache {
    pub fn open(_: &model::SharedCache, _: &Path) -> Result<SharedCache, CacheError> {
        Err(MissingFeature("cache").into())
    }

    pub fn get(&self, _: &str) -> Option<Vec<u8>> {
        match *self {}
    }

    pub fn is_to_check(&self, _: &str) -> bool {
        match *self {}
    }

    pub fn used(&self, _: bool) {
        match *self {}
    }

    pub fn unusable(&self, _: UnusableAnswer) {
        match *self {}
    }

    pub fn differs(&self, _: AnswerDifference) {
        match *self {}
    }

    pub fn put(&self, _: &str, _: &[u8]) {
        match *self {}
    }

    pub fn end(&self) -> CacheReport {
        match *self {}
    }
}
