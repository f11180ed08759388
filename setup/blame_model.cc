#include "setup/blame_model.h"

#include "engine/base/shown_text.h"
#include "engine/base/usage_error.h"
#include "setup/run_setup.h"

namespace rivulet {

Status BlameModel(const Scenario& scenario, Status error) {
  const std::string message(Message(error));
  if (message.starts_with("model.freeze") || message.starts_with("model.personal") || message.starts_with("model.lora"))
    return AsUsageError(std::move(error));
  const bool written_here =
      scenario.model.graph.empty() && scenario.model.onnx.empty() && scenario.model.arrays.empty();
  if (!written_here || (!absl::IsInvalidArgument(error) && !absl::IsNotFound(error))) return error;
  RunSetup again(scenario);
  return Message(again.plan().status()) == Message(error) ? AsUsageError(std::move(error)) : error;
}

}  // namespace rivulet
