//! The picture of `svg` in pixels. Pure.

use std::io::{self, Write};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

use crate::analysis::Analysis;
use crate::report::svg;

/// Latin, Greek and Cyrillic letters of DejaVu Sans: page/labels.txt has its licence.
const FONT: &[u8] = include_bytes!("../page/labels.ttf");
const FAMILY: &str = "DejaVu Sans";
/// Pixels for each unit of the picture.
const SCALE: f32 = 2.0;
/// A picture of more pixels in one direction is scaled down to this.
const MAX_PIXELS: f32 = 16_000.0;

pub fn write(analyses: &[Analysis], out: &mut dyn Write) -> io::Result<()> {
    let mut source = Vec::new();
    svg::write(analyses, &mut source)?;
    let mut options = Options { font_family: FAMILY.to_string(), ..Options::default() };
    options.fontdb_mut().load_font_data(FONT.to_vec());
    options.fontdb_mut().set_sans_serif_family(FAMILY);
    let tree = Tree::from_data(&source, &options).map_err(io::Error::other)?;
    let size = tree.size();
    let scale = SCALE.min(MAX_PIXELS / size.width().max(size.height()));
    let [width, height] = [size.width(), size.height()].map(|units| (units * scale).ceil() as u32);
    let too_large = || io::Error::other(format!("an image of {width} x {height} pixels"));
    let mut image = Pixmap::new(width, height).ok_or_else(too_large)?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut image.as_mut());
    out.write_all(&image.encode_png().map_err(io::Error::other)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing;

    fn image(analysis: &Analysis) -> Pixmap {
        let mut out = Vec::new();
        write(std::slice::from_ref(analysis), &mut out).unwrap();
        Pixmap::decode_png(&out).unwrap()
    }

    #[test]
    fn the_chart_and_its_letters_are_drawn() {
        let image = image(&testing::ordinary());
        let is_ink = |x: u32, y: u32| {
            let pixel = image.pixel(x, y).unwrap();
            u16::from(pixel.red()) + u16::from(pixel.green()) + u16::from(pixel.blue()) < 300
        };
        // The title is at the top, labels are on the left: without letters there is no ink.
        let ink = |xs: std::ops::Range<u32>, ys: std::ops::Range<u32>| {
            xs.flat_map(|x| ys.clone().map(move |y| (x, y))).filter(|(x, y)| is_ink(*x, *y)).count()
        };
        assert!(image.width() == 1312 && image.height() > 200, "{}", image.height());
        assert!(ink(0..600, 0..40) > 100, "the title");
        assert!(ink(0..400, 80..image.height()) > 100, "the labels");
    }

    #[test]
    fn nothing_to_draw_and_strange_names_are_images_too() {
        assert!(image(&testing::nothing()).width() > 100);
        for name in testing::HOSTILE {
            image(&testing::hostile(name));
        }
    }
}
