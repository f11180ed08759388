#include "setup/blame_model.h"

#include "engine/base/shown_text.h"
#include "engine/base/usage_error.h"
#include "setup/run_setup.h"

namespace rivulet {

Status BlameModel(const Scenario& scenario, Status error) {
  if (Message(error).starts_with("model.freeze") || Message(error).starts_with("model.personal"))
    return AsUsageError(std::move(error));
  const bool written_here =
      scenario.model.graph.empty() && scenario.model.onnx.empty() && scenario.model.arrays.empty();
  if (!written_here || (!absl::IsInvalidArgument(error) && !absl::IsNotFound(error))) return error;
  RunSetup again(scenario);
  return Message(again.plan().status()) == Message(error) ? AsUsageError(std::move(error)) : error;
}

}  // namespace rivulet
