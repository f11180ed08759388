#include "cli/model/base.h"

#include <memory>

#include "engine/base/table.h"
#include "federated/weights/base.h"

namespace rivulet {
namespace {

struct BaseArguments {
  std::string path;
  bool json = false;
};

Status Describe(const BaseArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const auto base, Base::Open(arguments.path));
  int64_t bytes = 0;
  for (const Base::Tensor& tensor : base->tensors()) bytes += static_cast<int64_t>(tensor.bytes);
  const Fields fields = {{"base", base->path()},
                         {"digest", base->digest().Hex()},
                         {"tensors", std::ssize(base->tensors())},
                         {"bytes", bytes},
                         {"bytes_to_download", base->travel_bytes()}};
  fmt::print("{}", arguments.json ? JsonObject(fields) + "\n" : FieldLines(fields));
  return absl::OkStatus();
}

}  // namespace

Command ModelBaseCommand() {
  auto arguments = std::make_shared<BaseArguments>();
  Command command{.name = "base",
                  .summary = "Print the digest and the size of a base (model.base).",
                  .example = "rivulet model base ours.safetensors"};
  command
      .Positional("PATH", &arguments->path,
                  "a safetensors file, or a folder with several and model.safetensors.index.json")
      .Flag("--json", &arguments->json, "print one JSON object");
  command.run = [arguments] { return Describe(*arguments); };
  return command;
}

}  // namespace rivulet
