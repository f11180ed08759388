// Tables from keys to values, with TensorFlow's names and attributes; dataflow/lookup carries them out.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

constexpr const char* kNoTableGradient = "a table's output is chosen by equality";

Status TableShape(InferenceContext& c) {
  c.set_output(0, Shape{});
  return absl::OkStatus();
}

Status FindShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {2}));
  c.set_output(0, c.input(1));
  return absl::OkStatus();
}

Status EntriesShape(InferenceContext& c) {
  if (!Shape::Compatible(c.input(1), c.input(2)))
    return InvalidArgument("keys {} and values {} differ in shape", c.input(1).ToString(), c.input(2).ToString());
  return absl::OkStatus();
}

Status ExportShape(InferenceContext& c) {
  c.set_output(0, Shape({kUnknownDim}));
  c.set_output(1, Shape({kUnknownDim}));
  return absl::OkStatus();
}

#define RIVULET_KEY_TYPE "{int32, int64, string}"
#define RIVULET_VALUE_TYPE "{float, double, int32, int64, bool, string}"

#define RIVULET_TABLE(name)                        \
  RIVULET_OP(name)                                 \
      .Output("table_handle: resource")            \
      .Attr("container: string = ''")              \
      .Attr("shared_name: string = ''")            \
      .Attr("use_node_name_sharing: bool = false") \
      .Attr("key_dtype: " RIVULET_KEY_TYPE)        \
      .Attr("value_dtype: " RIVULET_VALUE_TYPE)    \
      .Stateful()                                  \
      .Shape(TableShape)                           \
      .NotDifferentiable(kNoTableGradient)

RIVULET_TABLE("HashTableV2").Doc("A table that is filled once, by InitializeTableV2 or LookupTableImportV2.");
RIVULET_TABLE("MutableHashTableV2").Doc("A table that LookupTableInsertV2 and LookupTableImportV2 change at any time.");

RIVULET_OP("LookupTableFindV2")
    .Input("table_handle: resource")
    .Input("keys: Tin")
    .Input("default_value: Tout")
    .Output("values: Tout")
    .Attr("Tin: " RIVULET_KEY_TYPE)
    .Attr("Tout: " RIVULET_VALUE_TYPE)
    .Stateful()
    .Shape(FindShape)
    .NotDifferentiable(kNoTableGradient)
    .Doc("The value of each key; default_value where the table has no such key.");

#define RIVULET_TABLE_ENTRIES(name)      \
  RIVULET_OP(name)                       \
      .Input("table_handle: resource")   \
      .Input("keys: Tin")                \
      .Input("values: Tout")             \
      .Attr("Tin: " RIVULET_KEY_TYPE)    \
      .Attr("Tout: " RIVULET_VALUE_TYPE) \
      .Stateful()                        \
      .Shape(EntriesShape)               \
      .NotDifferentiable(kNoTableGradient)

RIVULET_TABLE_ENTRIES("LookupTableImportV2").Doc("Replaces all entries of a table.");
RIVULET_TABLE_ENTRIES("LookupTableInsertV2").Doc("Adds entries, or replaces those of known keys.");

RIVULET_OP("InitializeTableV2")
    .Input("table_handle: resource")
    .Input("keys: Tkey")
    .Input("values: Tval")
    .Attr("Tkey: " RIVULET_KEY_TYPE)
    .Attr("Tval: " RIVULET_VALUE_TYPE)
    .Stateful()
    .Shape(EntriesShape)
    .NotDifferentiable(kNoTableGradient)
    .Doc("Fills a table. A second time it must have the same entries.");

RIVULET_OP("LookupTableSizeV2")
    .Input("table_handle: resource")
    .Output("size: int64")
    .Stateful()
    .Shape(TableShape)
    .NotDifferentiable(kNoTableGradient)
    .Doc("How many entries a table has.");

RIVULET_OP("LookupTableExportV2")
    .Input("table_handle: resource")
    .Output("keys: Tkeys")
    .Output("values: Tvalues")
    .Attr("Tkeys: " RIVULET_KEY_TYPE)
    .Attr("Tvalues: " RIVULET_VALUE_TYPE)
    .Stateful()
    .Shape(ExportShape)
    .NotDifferentiable(kNoTableGradient)
    .Doc("All entries of a table, in the order in which their keys first came.");

}  // namespace
}  // namespace rivulet
