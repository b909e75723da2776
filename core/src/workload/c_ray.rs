//! `c-ray`: a ray tracer, which computes with floating-point numbers and nothing else.
//!
//! The work of C-Ray (J. Tsiombikas): spheres and a light, shadows, reflections to a depth, several
//! rays a pixel. The scene is our own: 64 spheres on a plane. One operation is one row of the image,
//! computed into a buffer of its worker, so no worker waits for another or writes where another does.
//!
//! Workers share out the rows of one image after the other by their numbers alone ([`Rows`]). Rows
//! differ in cost, so rows that follow each other in time lie far from each other in the image: any
//! short time has rows of each kind, for each worker.
//!
//! Only `+ - * /` and square roots of 64-bit numbers, each of which IEEE 754 defines to the last bit:
//! the image is the same on every machine.

use std::hint::black_box;
use std::ops::{Add, Mul, Sub};

use crate::model::{Kind, fields};

use super::{Load, Request, Role, Spec, Worker, Workload, WorkloadError, params};

pub struct CRay;

const MAX_SIDE: i64 = 1 << 16;

const SPEC: Spec = Spec {
    name: "c-ray",
    about: "ray tracing of spheres with shadows and reflections (C-Ray's work): floating-point \
            numbers, never sleeping",
    params: fields! {
        "width": Kind::Int { min: 1, max: MAX_SIDE }, "800" =>
            "pixels of a row, which is one operation";
        "height": Kind::Int { min: 1, max: MAX_SIDE }, "600" =>
            "rows of the image, which all workers of the set share out";
        "rays": Kind::Int { min: 1, max: 1024 }, "1" =>
            "rays of each pixel, which is their mean (antialiasing)";
        "depth": Kind::Int { min: 0, max: 100 }, "5" =>
            "reflections that a ray is followed through";
    },
    roles: &[Role { name: "c-ray", counts: true }],
    ops: "rows",
    ..Spec::PLAIN
};

impl Workload for CRay {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        let int = |name| params::int(request.params, name);
        let (width, height) = (params::count(request.params, "width")?, int("height")?);
        let scene = Scene::new(width, height, int("rays")?, int("depth")?);
        Ok(Box::new(Images { scene, width, height, workers: u64::from(request.count) }))
    }
}

struct Images {
    scene: Scene,
    width: usize,
    height: u64,
    workers: u64,
}

impl Load for Images {
    fn work(&self, index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        // Not zeros: takes the page faults.
        let mut pixels = vec![1; self.width];
        let rows = Rows::new(self.height);
        let mut place = index as u64;
        worker.start();
        while worker.running() {
            self.scene.trace_row(rows.at(place), &mut pixels);
            black_box(&mut pixels);
            worker.add_ops(1);
            place += self.workers;
        }
        Ok(())
    }
}

/// The order of the rows of endless images: worker i of n takes those at i, i + n, i + 2 n and so on.
/// Each image begins one row further down, so that also of as many workers as rows each gets to all.
struct Rows {
    height: u64,
    step: u64,
}

impl Rows {
    /// The step is near the golden section of the height, whose multiples spread evenly however many
    /// there are; without a common factor they come to all rows.
    fn new(height: u64) -> Rows {
        let mut step = (height * 618 / 1_000).max(1);
        while common_factor(step, height) > 1 {
            step += 1;
        }
        Rows { height, step }
    }

    #[inline]
    fn at(&self, place: u64) -> u64 {
        let (image, place) = (place / self.height, place % self.height);
        (place * self.step + image) % self.height
    }
}

/// The largest one (Euclid).
fn common_factor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_factor(b, a % b) }
}

/// A point, a direction or a colour (red, green, blue from 0 to 1).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Vec3(f64, f64, f64);

impl Add for Vec3 {
    type Output = Vec3;
    fn add(self, other: Vec3) -> Vec3 {
        Vec3(self.0 + other.0, self.1 + other.1, self.2 + other.2)
    }
}

impl Sub for Vec3 {
    type Output = Vec3;
    fn sub(self, other: Vec3) -> Vec3 {
        Vec3(self.0 - other.0, self.1 - other.1, self.2 - other.2)
    }
}

impl Mul<f64> for Vec3 {
    type Output = Vec3;
    fn mul(self, factor: f64) -> Vec3 {
        Vec3(self.0 * factor, self.1 * factor, self.2 * factor)
    }
}

impl Vec3 {
    fn dot(self, other: Vec3) -> f64 {
        self.0 * other.0 + self.1 * other.1 + self.2 * other.2
    }

    fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    fn normalised(self) -> Vec3 {
        self * (1.0 / self.length())
    }

    /// 8 bits of each colour.
    fn packed(self) -> u32 {
        let byte = |part: f64| (part.clamp(0.0, 1.0) * 255.0) as u32;
        byte(self.0) << 16 | byte(self.1) << 8 | byte(self.2)
    }
}

const BLACK: Vec3 = Vec3(0.0, 0.0, 0.0);
const SKY: Vec3 = Vec3(0.5, 0.7, 0.9);
const EYE: Vec3 = Vec3(0.0, 4.0, -12.0);
/// From the eye to the middle of the image, which is as wide as this is deep.
const VIEW: Vec3 = Vec3(0.0, -0.25, 1.0);
const LIGHT: Vec3 = Vec3(-20.0, 30.0, -15.0);
const AMBIENT: f64 = 0.1;
/// Highlights are the cosine to 2^5: squared this number of times.
const SHININESS: u32 = 5;
/// A hit that is nearer than this is the ray's own beginning.
const NEAR: f64 = 1e-6;
/// Rows and columns of spheres.
const GRID: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Surface {
    colour: Vec3,
    /// The share of light that is reflected.
    reflected: f64,
}

/// The plane at y = 0.
const PLANE: Surface = Surface { colour: Vec3(0.6, 0.6, 0.5), reflected: 0.2 };

struct Sphere {
    centre: Vec3,
    radius: f64,
    surface: Surface,
}

impl Sphere {
    /// How far a ray of length-1 direction goes until it meets the sphere.
    #[inline]
    fn distance(&self, origin: Vec3, direction: Vec3) -> Option<f64> {
        let to_centre = self.centre - origin;
        let along = to_centre.dot(direction);
        let square = along * along - to_centre.dot(to_centre) + self.radius * self.radius;
        if square < 0.0 {
            return None;
        }
        let half = square.sqrt();
        let nearest = if along - half > NEAR { along - half } else { along + half };
        (nearest > NEAR).then_some(nearest)
    }
}

struct Hit {
    point: Vec3,
    normal: Vec3,
    surface: Surface,
}

struct Scene {
    spheres: Vec<Sphere>,
    /// The point in its pixel through which each ray goes, from 0 to 1.
    offsets: Vec<(f64, f64)>,
    depth: u64,
    /// Half of the image, in pixels.
    middle: (f64, f64),
}

impl Scene {
    fn new(width: usize, height: u64, rays: u64, depth: u64) -> Scene {
        let spheres = (0..GRID * GRID).map(|number| {
            let (column, row) = ((number % GRID) as f64, (number / GRID) as f64);
            let radius = 0.4 + 0.1 * (number * 7 % 5) as f64;
            let part = |factor: usize| 0.2 + 0.1 * (number * factor % 8) as f64;
            Sphere {
                centre: Vec3(2.0 * column - 7.0, radius, 2.0 * row - 4.0),
                radius,
                surface: Surface {
                    colour: Vec3(part(3), part(5), part(7)),
                    reflected: 0.1 * (number * 3 % 7) as f64,
                },
            }
        });
        // Evenly spread however many there are: M. Roberts's sequence R2, from 1 / 1.3247 and its
        // square.
        let offset = |ray: u64| {
            let part = |step: f64| (0.5 + ray as f64 * step).fract();
            (part(0.754_877_666_246_692_7), part(0.569_840_290_998_053_2))
        };
        Scene {
            spheres: spheres.collect(),
            offsets: (0..rays).map(offset).collect(),
            depth,
            middle: (width as f64 / 2.0, height as f64 / 2.0),
        }
    }

    /// The colours of a row; 0 is the upper one.
    #[inline(never)]
    fn trace_row(&self, row: u64, pixels: &mut [u32]) {
        let share = 1.0 / self.offsets.len() as f64;
        for (column, pixel) in pixels.iter_mut().enumerate() {
            let lights = self.offsets.iter().map(|(right, down)| {
                let right = column as f64 + right - self.middle.0;
                let up = self.middle.1 - row as f64 - down;
                let aside = Vec3(right, up, 0.0) * (0.5 / self.middle.0);
                self.light(EYE, (VIEW + aside).normalised())
            });
            *pixel = (lights.fold(BLACK, Add::add) * share).packed();
        }
    }

    /// The light that comes back along a ray.
    fn light(&self, mut origin: Vec3, mut direction: Vec3) -> Vec3 {
        let (mut light, mut share) = (BLACK, 1.0);
        for _ in 0..=self.depth {
            let Some(Hit { point, normal, surface }) = self.hit(origin, direction) else {
                return light + SKY * share;
            };
            let own = self.shade(point, normal, surface.colour, direction);
            light = light + own * (share * (1.0 - surface.reflected));
            share *= surface.reflected;
            origin = point;
            direction = mirrored(direction, normal);
        }
        light
    }

    /// The first hit of the ray.
    fn hit(&self, origin: Vec3, direction: Vec3) -> Option<Hit> {
        let mut nearest = f64::INFINITY;
        let mut met = None;
        for sphere in &self.spheres {
            if let Some(distance) = sphere.distance(origin, direction).filter(|d| *d < nearest) {
                (nearest, met) = (distance, Some(sphere));
            }
        }
        let down = -origin.1 / direction.1;
        let is_plane = down > NEAR && down < nearest;
        let point = origin + direction * if is_plane { down } else { nearest };
        match met {
            _ if is_plane => Some(Hit { point, normal: Vec3(0.0, 1.0, 0.0), surface: PLANE }),
            Some(Sphere { centre, radius, surface }) => {
                Some(Hit { point, normal: (point - *centre) * (1.0 / radius), surface: *surface })
            }
            None => None,
        }
    }

    /// The light of the lamp from a point, in the shadow or not (Phong).
    fn shade(&self, point: Vec3, normal: Vec3, colour: Vec3, direction: Vec3) -> Vec3 {
        let to_light = LIGHT - point;
        let far = to_light.length();
        let to_light = to_light * (1.0 / far);
        let facing = normal.dot(to_light);
        let mut in_way = self.spheres.iter().filter_map(|s| s.distance(point, to_light));
        if facing <= 0.0 || in_way.any(|distance| distance < far) {
            return colour * AMBIENT;
        }
        let cosine = mirrored(direction, normal).dot(to_light).max(0.0);
        let highlight = (0..SHININESS).fold(cosine, |power, _| power * power);
        colour * (AMBIENT + facing) + Vec3(highlight, highlight, highlight)
    }
}

fn mirrored(direction: Vec3, normal: Vec3) -> Vec3 {
    direction - normal * (2.0 * direction.dot(normal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Raw;
    use crate::workload::testing::{WorkerGroup, params};

    const WIDTH: usize = 64;
    const HEIGHT: u64 = 48;

    fn image(rays: u64, depth: u64) -> Vec<u32> {
        let scene = Scene::new(WIDTH, HEIGHT, rays, depth);
        let mut pixels = vec![0; WIDTH * HEIGHT as usize];
        let rows = (0..).zip(pixels.chunks_mut(WIDTH));
        rows.for_each(|(row, pixels)| scene.trace_row(row, pixels));
        pixels
    }

    /// FNV-1a.
    fn checksum(image: &[u32]) -> u64 {
        let bytes = image.iter().flat_map(|pixel| pixel.to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    #[test]
    fn the_image_is_the_same_to_the_last_bit_everywhere() {
        // Rays and depth; another implementation, in another language, has the same sums.
        let cases = [
            (1, 5, 0x0b54_8b0d_5c08_0935),
            (3, 5, 0x6749_5416_04c0_942b),
            (1, 0, 0x987b_1947_4e5a_8958),
        ];
        for (rays, depth, expected) in cases {
            assert_eq!(checksum(&image(rays, depth)), expected, "{rays} rays, depth {depth}");
        }
    }

    #[test]
    fn the_sky_is_above_the_plane_below_and_spheres_between() {
        let image = image(1, 5);
        assert!(image[..WIDTH].iter().all(|&pixel| pixel == SKY.packed()));
        let mut colours = image.clone();
        colours.sort_unstable();
        colours.dedup();
        assert!(colours.len() > 500, "{} colours", colours.len());
    }

    #[test]
    fn a_ray_meets_what_is_nearest_and_is_lit_unless_in_the_shadow() {
        let sphere = |x: f64| Sphere { centre: Vec3(x, 1.0, 0.0), radius: 1.0, surface: PLANE };
        let spheres = vec![sphere(9.0), sphere(4.0)];
        let scene = Scene { spheres, offsets: Vec::new(), depth: 0, middle: (1.0, 1.0) };
        let right = Vec3(1.0, 0.0, 0.0);
        let hit = scene.hit(Vec3(0.0, 1.0, 0.0), right).unwrap();
        assert_eq!((hit.point, hit.normal), (Vec3(3.0, 1.0, 0.0), right * -1.0));
        let inside = scene.hit(Vec3(4.0, 1.0, 0.0), right).unwrap();
        assert_eq!(inside.point, Vec3(5.0, 1.0, 0.0));
        let plane = scene.hit(Vec3(0.0, 2.0, 0.0), Vec3(0.0, -1.0, 0.0)).unwrap();
        assert_eq!((plane.point, plane.surface), (BLACK, PLANE));
        assert!(scene.hit(Vec3(0.0, 1.0, 0.0), Vec3(-1.0, 0.0, 0.0)).is_none());
        let up = Vec3(0.0, 1.0, 0.0);
        let shade = |point| scene.shade(point, up, Vec3(1.0, 1.0, 1.0), Vec3(0.0, -1.0, 0.0)).0;
        assert!(shade(Vec3(-9.0, 0.0, 0.0)) > 0.5);
        // Below the middle of a sphere, on the side that the lamp is not on.
        assert_eq!(shade(Vec3(5.0, 0.0, 0.5)), AMBIENT);
    }

    #[test]
    fn workers_share_out_each_image_and_each_comes_to_every_row() {
        for height in [1, 2, 48, 600, 601] {
            let rows = Rows::new(height);
            let seen = |places: &mut dyn Iterator<Item = u64>| {
                let mut seen: Vec<u64> = places.map(|place| rows.at(place)).collect();
                seen.sort_unstable();
                seen.dedup();
                seen.len() as u64
            };
            for image in [0, 1, height] {
                assert_eq!(seen(&mut (image * height..(image + 1) * height)), height);
            }
            for workers in [1, 2, 7, height] {
                let own = (0..height * height).map(|turn| 1 + turn * workers);
                assert_eq!(seen(&mut own.into_iter()), height, "{height} rows, {workers} workers");
            }
        }
    }

    #[test]
    fn rows_of_any_short_time_are_spread_over_the_image() {
        for height in [480, 600, 1080] {
            let rows = Rows::new(height);
            for workers in [1, 2, 3, 4] {
                let own: Vec<u64> = (0..32).map(|turn| rows.at(turn * workers)).collect();
                let upper = own.iter().filter(|&&row| row < height / 2).count();
                assert!((13..=19).contains(&upper), "{height} {workers}: {upper} of 32");
            }
        }
    }

    #[test]
    fn every_worker_traces_rows() {
        let given = [("width", 16), ("height", 16)].map(|(name, value)| (name, Raw::Int(value)));
        let group = WorkerGroup::start(&CRay, &params(&CRay, &given), 2);
        group.wait_until("rows", |group| group.slots().iter().all(|slot| slot.ops() >= 20));
        group.stop();
    }
}
