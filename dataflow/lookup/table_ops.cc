// Asynchronous ops for tables. None of them waits, but a table lives as long as its session, which programs cannot
// access.
#include "dataflow/lookup/table.h"
#include "dataflow/resources/async_op.h"

namespace rivulet {
namespace {

StatusOr<std::shared_ptr<Resource>> MakeTable(const ResourceContext& context) {
  const Node& node = context.node;
  return std::shared_ptr<Resource>(std::make_shared<LookupTable>(
      node.attr<DType>("key_dtype"), node.attr<DType>("value_dtype"), node.type() == "HashTableV2"));
}

LookupTable& TableOf(AsyncContext& context) { return static_cast<LookupTable&>(*context.resources[0]); }

void Done(const Status& status, const AsyncDone& done) {
  if (!status.ok()) return done(status);
  done(std::vector<Tensor>());
}

void Find(AsyncContext& context, AsyncDone done) {
  StatusOr<Tensor> values = TableOf(context).Find(context.inputs[0], context.inputs[1]);
  if (!values.ok()) return done(values.status());
  done(std::vector{*std::move(values)});
}

void Initialize(AsyncContext& context, AsyncDone done) {
  Done(TableOf(context).Fill(context.inputs[0], context.inputs[1]), done);
}

void Import(AsyncContext& context, AsyncDone done) {
  Done(TableOf(context).Replace(context.inputs[0], context.inputs[1]), done);
}

void Insert(AsyncContext& context, AsyncDone done) {
  Done(TableOf(context).Insert(context.inputs[0], context.inputs[1]), done);
}

void Size(AsyncContext& context, AsyncDone done) {
  const StatusOr<int64_t> size = TableOf(context).size();
  if (!size.ok()) return done(size.status());
  done(std::vector{Tensor::Scalar(*size)});
}

void Export(AsyncContext& context, AsyncDone done) {
  StatusOr<LookupTable::Entries> entries = TableOf(context).Export();
  if (!entries.ok()) return done(entries.status());
  done(std::vector{std::move(entries->keys), std::move(entries->values)});
}

RIVULET_RESOURCE_OP("HashTableV2", "Table", MakeTable);
RIVULET_RESOURCE_OP("MutableHashTableV2", "Table", MakeTable);
RIVULET_ASYNC_OP("LookupTableFindV2", Find);
RIVULET_ASYNC_OP("InitializeTableV2", Initialize);
RIVULET_ASYNC_OP("LookupTableImportV2", Import);
RIVULET_ASYNC_OP("LookupTableInsertV2", Insert);
RIVULET_ASYNC_OP("LookupTableSizeV2", Size);
RIVULET_ASYNC_OP("LookupTableExportV2", Export);

}  // namespace
}  // namespace rivulet
