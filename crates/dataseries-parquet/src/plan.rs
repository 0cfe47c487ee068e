//! The columns of a table, and the column of each field.

use std::collections::HashMap;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::file::metadata::KeyValue;
use parquet::schema::types::{Type, TypePtr};
use retake_dataseries::{ExtentType, Field, FieldType};

use crate::error::{Error, Result};

/// The column of a wide table that has the type of each row.
pub(crate) const TYPE_COLUMN: &str = "extent_type";
/// The metadata key of the layout. Its value is `wide`, or it is absent.
const LAYOUT_KEY: &str = "dataseries.layout";
/// The metadata keys of the types' descriptions, which are numbered from 0.
const TYPE_KEY: &str = "dataseries.type.";

/// A column.
#[derive(Debug, Clone)]
pub(crate) struct PlannedColumn {
    pub name: String,
    pub field_type: FieldType,
    pub nullable: bool,
    pub is_text: bool,
}

/// The columns of a table.
#[derive(Debug)]
pub(crate) struct Plan {
    pub types: Vec<Arc<ExtentType>>,
    pub columns: Vec<PlannedColumn>,
    /// For each type, the column of each of its fields.
    pub places: Vec<Vec<usize>>,
    pub is_wide: bool,
}

impl Plan {
    /// The plan for records of one type.
    pub fn of_type(extent_type: &Arc<ExtentType>, text_fields: &[String]) -> Self {
        let columns = extent_type
            .fields()
            .iter()
            .map(|field| PlannedColumn::of(field, text_fields))
            .collect::<Vec<_>>();
        let places = vec![(0..columns.len()).collect()];
        Self { types: vec![Arc::clone(extent_type)], columns, places, is_wide: false }
    }

    /// The plan for records of several types. Fields with the same name share a column if their
    /// types are the same, or all integers: the column is then as wide as the widest. Otherwise the
    /// later field gets a column whose name has the type appended.
    pub fn wide(types: Vec<Arc<ExtentType>>, text_fields: &[String]) -> Self {
        let type_column = PlannedColumn {
            name: TYPE_COLUMN.to_owned(),
            field_type: FieldType::Variable32,
            nullable: false,
            is_text: true,
        };
        let mut columns = vec![type_column];
        let mut by_name: HashMap<String, usize> = HashMap::from([(TYPE_COLUMN.to_owned(), 0)]);
        let mut places = Vec::with_capacity(types.len());
        for extent_type in &types {
            let fields = extent_type.fields().iter();
            places.push(
                fields.map(|field| place(field, text_fields, &mut columns, &mut by_name)).collect(),
            );
        }
        Self { types, columns, places, is_wide: true }
    }

    /// The plan in our metadata; `None` if there are none.
    pub fn of_metadata(metadata: Option<&Vec<KeyValue>>) -> Result<Option<Self>> {
        let value = |key: &str| {
            metadata
                .and_then(|all| all.iter().find(|entry| entry.key == key))
                .and_then(|entry| entry.value.as_deref())
        };
        let mut types = Vec::new();
        while let Some(xml) = value(&format!("{TYPE_KEY}{}", types.len())) {
            types.push(ExtentType::parse(xml)?);
        }
        match (types.as_slice(), value(LAYOUT_KEY)) {
            ([], _) => Ok(None),
            (_, Some("wide")) => Ok(Some(Self::wide(types, &[]))),
            ([one], None) => Ok(Some(Self::of_type(one, &[]))),
            _ => Err(Error::Metadata { what: "several types in a table for one".to_owned() }),
        }
    }

    /// The metadata to put in a file.
    pub fn metadata(&self) -> Vec<KeyValue> {
        let types = self.types.iter().enumerate();
        let types = types.map(|(number, own)| {
            KeyValue::new(format!("{TYPE_KEY}{number}"), own.xml().to_owned())
        });
        let layout = self.is_wide.then(|| KeyValue::new(LAYOUT_KEY.to_owned(), "wide".to_owned()));
        types.chain(layout).collect()
    }

    /// The schema of the file.
    pub fn schema(&self) -> Result<TypePtr> {
        let fields = self
            .columns
            .iter()
            .map(|column| column.schema().map(Arc::new))
            .collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(Type::group_type_builder("dataseries").with_fields(fields).build()?))
    }
}

/// Finds the column of a field, or adds one.
fn place(
    field: &Field,
    text_fields: &[String],
    columns: &mut Vec<PlannedColumn>,
    by_name: &mut HashMap<String, usize>,
) -> usize {
    let mut name = field.name.clone();
    while let Some(&number) = by_name.get(&name) {
        let widest = widest(columns[number].field_type, field.field_type);
        if let Some(widest) = widest.filter(|_| number > 0) {
            columns[number].field_type = widest;
            return number;
        }
        name = format!("{name}_{}", field.field_type.name());
    }
    // Rows of other types have null in this column.
    columns.push(PlannedColumn {
        name: name.clone(),
        nullable: true,
        ..PlannedColumn::of(field, text_fields)
    });
    by_name.insert(name, columns.len() - 1);
    columns.len() - 1
}

/// The type that can hold the values of both, if there is one.
fn widest(left: FieldType, right: FieldType) -> Option<FieldType> {
    const INTEGERS: [FieldType; 4] =
        [FieldType::Bool, FieldType::Byte, FieldType::Int32, FieldType::Int64];
    let rank = |wanted| INTEGERS.iter().position(|integer| *integer == wanted);
    match (rank(left), rank(right)) {
        (Some(left), Some(right)) => Some(INTEGERS[left.max(right)]),
        _ if left == right => Some(left),
        _ => None,
    }
}

impl PlannedColumn {
    fn of(field: &Field, text_fields: &[String]) -> Self {
        let is_text =
            field.field_type == FieldType::Variable32 && text_fields.contains(&field.name);
        Self {
            name: field.name.clone(),
            field_type: field.field_type,
            nullable: field.nullable,
            is_text,
        }
    }

    fn schema(&self) -> Result<Type> {
        let (physical, logical, length) = match self.field_type {
            FieldType::Bool => (Physical::BOOLEAN, None, 0),
            FieldType::Byte => (Physical::INT32, Some(LogicalType::integer(8, false)), 0),
            FieldType::Int32 => (Physical::INT32, None, 0),
            FieldType::Int64 => (Physical::INT64, None, 0),
            FieldType::Double => (Physical::DOUBLE, None, 0),
            FieldType::Variable32 => {
                (Physical::BYTE_ARRAY, self.is_text.then_some(LogicalType::String), 0)
            }
            FieldType::FixedWidth(size) => (Physical::FIXED_LEN_BYTE_ARRAY, None, size as i32),
        };
        let repetition = if self.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let builder =
            Type::primitive_type_builder(&self.name, physical).with_repetition(repetition);
        Ok(builder.with_logical_type(logical).with_length(length).build()?)
    }
}

/// The field for a column of another program's file.
pub(crate) fn foreign_field(column: &Type) -> Result<Field> {
    let name = column.name();
    let refuse = |what: &str| Err(Error::Column { column: name.to_owned(), what: what.to_owned() });
    if column.is_group() || !column.get_basic_info().has_repetition() {
        return refuse("a structure");
    }
    let nullable = match column.get_basic_info().repetition() {
        Repetition::REPEATED => return refuse("a list"),
        repetition => repetition == Repetition::OPTIONAL,
    };
    let Type::PrimitiveType { physical_type, type_length, .. } = column else {
        return refuse("a structure");
    };
    let field = match physical_type {
        Physical::BOOLEAN => Field::bool(name),
        Physical::INT32 => Field::int32(name),
        Physical::INT64 => Field::int64(name),
        Physical::FLOAT | Physical::DOUBLE => Field::double(name),
        Physical::BYTE_ARRAY => Field::variable32(name),
        Physical::FIXED_LEN_BYTE_ARRAY => Field::fixed_width(name, *type_length as u32),
        Physical::INT96 => return refuse("a time of 96 bits"),
    };
    Ok(if nullable { field.nullable() } else { field })
}
