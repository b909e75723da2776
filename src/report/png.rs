//! `png`: the picture of `svg`, in pixels, for where no SVG is taken. Pure: the letters are a font of
//! our own, so that a picture is the same wherever it is made.

use super::{Format, Render};

pub const PNG: Format = Format {
    name: "png",
    about: "the chart of svg as an image: -o chart.png",
    explains: |_| false,
    render: Render::Image(write),
};

#[cfg(not(feature = "png"))]
use absent::write;
#[cfg(feature = "png")]
use pixels::write;

#[cfg(not(feature = "png"))]
mod absent;
#[cfg(feature = "png")]
mod pixels;
