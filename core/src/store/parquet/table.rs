//! One table in one Parquet file: rows come in one by one, and are written as row groups of columns.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Type as Physical};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::super::error::{Fault, StoreError};
use super::target::{VERSION, VERSION_KEY};

/// Some 30 MB of the largest table.
const ROWS_OF_A_GROUP: usize = 50_000;

/// The value in a row and a column; truth is a number, as in the store.
#[derive(Debug, Clone)]
pub enum Value {
    Null,
    Text(ByteArray),
    Int(i64),
    Double(f64),
}

impl Value {
    pub fn text(text: Option<impl AsRef<str>>) -> Value {
        text.map_or(Value::Null, |text| Value::Text(text.as_ref().into()))
    }

    pub fn int(number: Option<i64>) -> Value {
        number.map_or(Value::Null, Value::Int)
    }
}

/// The rows of a column that are not written yet.
enum Column {
    Text(Vec<ByteArray>),
    Int(Vec<i32>),
    Long(Vec<i64>),
    Double(Vec<f64>),
    Bool(Vec<bool>),
}

/// Where a column may have no value: 1 for each row that has one.
type Levels = Option<Vec<i16>>;

pub struct Table {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    columns: Vec<(Column, Levels)>,
    rows: usize,
    written: u64,
}

impl Table {
    /// A file that is not there yet.
    pub fn create(folder: &Path, name: &str, schema: &str) -> Result<Table, Fault> {
        let path = folder.join(format!("{name}.parquet"));
        let fail = |why: String| failed(&path, why);
        let file = File::create_new(&path).map_err(|why| fail(why.to_string()))?;
        let schema = Arc::new(parse_message_type(schema).map_err(|why| fail(why.to_string()))?);
        let version = KeyValue::new(VERSION_KEY.to_string(), VERSION.to_string());
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by(format!("schedlab {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(vec![version]))
            .build();
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties))
            .map_err(|why| fail(why.to_string()))?;
        let columns = writer.schema_descr().columns().iter().map(|column| {
            let levels = (column.max_def_level() > 0).then(Vec::new);
            let column = match column.physical_type() {
                Physical::INT32 => Column::Int(Vec::new()),
                Physical::INT64 => Column::Long(Vec::new()),
                Physical::DOUBLE => Column::Double(Vec::new()),
                Physical::BOOLEAN => Column::Bool(Vec::new()),
                _ => Column::Text(Vec::new()),
            };
            (column, levels)
        });
        let columns = columns.collect();
        Ok(Table { path, writer, columns, rows: 0, written: 0 })
    }

    /// Adds a row: a value for each column, in their order.
    pub fn push(&mut self, row: impl Iterator<Item = Value>) -> Result<(), Fault> {
        let mut columns = self.columns.iter_mut();
        for value in row {
            let misfit = match columns.next() {
                Some((column, levels)) => add(column, levels, value).err(),
                None => Some(value),
            };
            if let Some(value) = misfit {
                return Err(Fault::Damaged(format!("{value:?} does not fit its column")));
            }
        }
        if columns.next().is_some() {
            return Err(failed(&self.path, "a row lacks a column".to_string()));
        }
        self.rows += 1;
        if self.rows >= ROWS_OF_A_GROUP { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Fault> {
        if self.rows == 0 {
            return Ok(());
        }
        let (writer, columns) = (&mut self.writer, &mut self.columns);
        let mut write = || -> Result<(), ParquetError> {
            let mut group = writer.next_row_group()?;
            for (column, levels) in columns.iter_mut() {
                let Some(mut to) = group.next_column()? else { break };
                write_column(&mut to, column, levels.as_deref())?;
                to.close()?;
                if let Some(levels) = levels {
                    levels.clear();
                }
            }
            group.close().map(drop)
        };
        write().map_err(|why| failed(&self.path, why.to_string()))?;
        self.written += std::mem::take(&mut self.rows) as u64;
        Ok(())
    }

    /// Completes the file, on the disk. How many rows it has.
    pub fn close(mut self) -> Result<u64, Fault> {
        self.flush()?;
        let file = self.writer.into_inner().map_err(|why| failed(&self.path, why.to_string()))?;
        file.sync_all().map_err(|why| failed(&self.path, why.to_string()))?;
        Ok(self.written)
    }
}

fn failed(path: &Path, why: String) -> Fault {
    StoreError::Parquet { path: path.to_path_buf(), why }.into()
}

/// Adds a value to its column; an error is the value that does not fit.
fn add(column: &mut Column, levels: &mut Levels, value: Value) -> Result<(), Value> {
    let is_null = matches!(value, Value::Null);
    match (column, value) {
        (_, Value::Null) if levels.is_some() => {}
        (Column::Text(all), Value::Text(text)) => all.push(text),
        (Column::Int(all), Value::Int(number)) => all.push(number as i32),
        (Column::Long(all), Value::Int(number)) => all.push(number),
        (Column::Double(all), Value::Double(number)) => all.push(number),
        (Column::Bool(all), Value::Int(number)) => all.push(number != 0),
        (_, value) => return Err(value),
    }
    levels.iter_mut().for_each(|levels| levels.push(i16::from(!is_null)));
    Ok(())
}

fn write_column(
    to: &mut SerializedColumnWriter,
    column: &mut Column,
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    match column {
        Column::Text(all) => write_values::<ByteArrayType>(to, all, levels),
        Column::Int(all) => write_values::<Int32Type>(to, all, levels),
        Column::Long(all) => write_values::<Int64Type>(to, all, levels),
        Column::Double(all) => write_values::<DoubleType>(to, all, levels),
        Column::Bool(all) => write_values::<BoolType>(to, all, levels),
    }
}

fn write_values<T: DataType>(
    to: &mut SerializedColumnWriter,
    all: &mut Vec<T::T>,
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    to.typed::<T>().write_batch(all, levels, None)?;
    all.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    #[test]
    fn each_group_has_its_own_rows() {
        let folder = tempfile::tempdir().unwrap();
        let schema = "message rows { REQUIRED INT64 at; OPTIONAL INT64 even; }";
        let mut table = Table::create(folder.path(), "rows", schema).unwrap();
        let count = 2 * ROWS_OF_A_GROUP as i64 + 7;
        for at in 0..count {
            let even = Value::int((at % 2 == 0).then_some(at));
            table.push([Value::Int(at), even].into_iter()).unwrap();
        }
        assert_eq!(table.close().unwrap(), count as u64);
        let file = File::open(folder.path().join("rows.parquet")).unwrap();
        let file = SerializedFileReader::new(file).unwrap();
        let groups = file.metadata().row_groups().iter().map(|group| group.num_rows());
        assert_eq!(groups.collect::<Vec<_>>(), [ROWS_OF_A_GROUP as i64, ROWS_OF_A_GROUP as i64, 7]);
        for (at, row) in (0..).zip(file.get_row_iter(None).unwrap()) {
            let even = if at % 2 == 0 { at.to_string() } else { "null".to_string() };
            assert_eq!(row.unwrap().to_string(), format!("{{at: {at}, even: {even}}}"));
        }
    }

    #[test]
    fn a_column_takes_values_of_its_type_and_nothing_only_where_it_may() {
        let mut column = Column::Int(Vec::new());
        let mut levels = Some(Vec::new());
        assert!(add(&mut column, &mut levels, Value::Int(7)).is_ok());
        assert!(add(&mut column, &mut levels, Value::Null).is_ok());
        assert!(add(&mut column, &mut levels, Value::Double(1.0)).is_err());
        assert_eq!(levels, Some(vec![1, 0]));
        assert!(add(&mut column, &mut None, Value::Int(8)).is_ok());
        assert!(add(&mut column, &mut None, Value::Null).is_err());
        let Column::Int(values) = column else { panic!("another column") };
        assert_eq!(values, [7, 8]);
    }
}
