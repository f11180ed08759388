#include "dataflow/session/session_checkpoint.h"

#include <algorithm>
#include <vector>

#include "engine/base/nearest.h"

namespace rivulet {

Status SaveVariables(const Session& session, CheckpointFolder& folder, int64_t step,
                     const std::map<std::string, std::string>& metadata) {
  std::vector<Tensor> values;
  std::vector<NamedTensorView> tensors;
  for (const std::string& name : session.variables()) {
    StatusOr<Tensor> value = session.GetVariable(name);
    if (absl::IsFailedPrecondition(value.status())) continue;  // no value yet
    if (!value.ok()) return value.status();
    values.push_back(*std::move(value));
    tensors.emplace_back(name, values.back().view());
  }
  return folder.Save(step, tensors, metadata);
}

Status RestoreVariables(const Checkpoint& checkpoint, Session& session, bool partial) {
  const std::vector<std::string> names = session.variables();
  const auto find = [&](const std::string& name) {
    return std::ranges::find(checkpoint.tensors, name, [](const auto& tensor) { return tensor.first; });
  };
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (std::ranges::find(names, name) == names.end()) {
      if (partial) continue;
      return NotFound("the checkpoint of step {} has a tensor '{}', which is no variable of the session.{}",
                      checkpoint.step, name, DidYouMean(name, names));
    }
    const Shape* shape = nullptr;
    for (const auto& node : session.graph().nodes())
      if (node->type() == "VarHandleOp" && node->outputs()[0].shape.known_rank() &&
          (node->name() == name || *node->FindAttr<std::string>("shared_name") == name)) {
        if (node->attr<DType>("dtype") != tensor.dtype() || node->attr<Shape>("shape") != tensor.shape())
          return InvalidArgument("the variable '{}' is {}{}, and the checkpoint of step {} has {}{} for it", name,
                                 Name(node->attr<DType>("dtype")), node->attr<Shape>("shape").ToString(),
                                 checkpoint.step, Name(tensor.dtype()), tensor.shape().ToString());
        shape = &tensor.shape();
      }
    if (shape == nullptr) return Internal("the variable '{}' has no node", name);
  }
  if (!partial)
    for (const std::string& name : names)
      if (find(name) == checkpoint.tensors.end())
        return NotFound("the checkpoint of step {} has no tensor for the variable '{}'", checkpoint.step, name);
  for (const auto& [name, tensor] : checkpoint.tensors)
    if (std::ranges::find(names, name) != names.end()) RIVULET_RETURN_IF_ERROR(session.SetVariable(name, tensor));
  return absl::OkStatus();
}

}  // namespace rivulet
