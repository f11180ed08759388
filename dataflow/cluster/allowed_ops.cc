#include "dataflow/cluster/allowed_ops.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "engine/base/shown_text.h"
#include "engine/graph/function.h"

namespace rivulet {
namespace {

// Ops that open files by path are refused where a graph is read (engine/graphdef/verify.h), and so is every op that
// this program has no signature of. Libraries of ops are never opened by a task.
constexpr std::array<std::string_view, 2> kRefusedOps = {"Print", "PrintV2"};

}  // namespace

Status CheckAllowedOps(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (std::ranges::find(kRefusedOps, node->type()) != kRefusedOps.end())
      return PermissionDenied(
          "'{}' is {}, which a graph from another process may not contain: it writes to the log "
          "of this one",
          Shortened(node->name()), node->type());
  }
  for (const auto& [name, function] : graph.functions()) RIVULET_RETURN_IF_ERROR(CheckAllowedOps(*function->body));
  return absl::OkStatus();
}

}  // namespace rivulet
