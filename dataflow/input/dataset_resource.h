// Dataset ops in a session: each op of the PipelineRegistry runs as an asynchronous op, and its handle is a variant
// that refers to the pipeline within the run.
#pragma once

#include <memory>

#include "dataflow/resources/async_op.h"
#include "engine/input/pipeline.h"

namespace rivulet {

class DatasetResource : public Resource {
 public:
  explicit DatasetResource(std::shared_ptr<const Pipeline> pipeline) : pipeline(std::move(pipeline)) {}
  std::string_view type() const override { return "Dataset"; }
  const std::shared_ptr<const Pipeline> pipeline;
};

// The pipeline that `variant`, the handle from a dataset op, refers to. INVALID_ARGUMENT: not such a handle.
StatusOr<std::shared_ptr<const Pipeline>> PipelineOf(const RunScope& scope, const Tensor& variant);

}  // namespace rivulet
