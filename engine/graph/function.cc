#include "engine/graph/function.h"

#include <algorithm>

namespace rivulet {

StatusOr<std::shared_ptr<const Function>> Function::Create(std::string name, Graph body, std::vector<Output> results,
                                                           std::vector<Node*> control_results,
                                                           std::vector<std::string> result_names, bool noinline) {
  auto function = std::make_shared<Function>();
  const auto owned = [&](const Node* node) {
    return node != nullptr && static_cast<size_t>(node->id()) < body.nodes().size() &&
           body.nodes()[static_cast<size_t>(node->id())].get() == node;
  };
  for (const auto& node : body.nodes()) {
    if (node->type() != "_Arg") continue;
    const size_t index = static_cast<size_t>(node->attr<int64_t>("index"));
    if (index >= body.nodes().size())
      return InvalidArgument("function '{}': argument '{}' has the index {}, more than there are nodes", name,
                             node->name(), index);
    if (function->arguments.size() <= index) function->arguments.resize(index + 1, nullptr);
    if (function->arguments[index] != nullptr)
      return InvalidArgument("function '{}': both '{}' and '{}' are argument {}", name,
                             function->arguments[index]->name(), node->name(), index);
    function->arguments[index] = node.get();
  }
  for (size_t i = 0; i < function->arguments.size(); ++i)
    if (function->arguments[i] == nullptr)
      return InvalidArgument("function '{}' has {} arguments, but none of index {}", name, function->arguments.size(),
                             i);
  for (size_t i = 0; i < results.size(); ++i)
    if (!owned(results[i].node) || results[i].port < 0 ||
        static_cast<size_t>(results[i].port) >= results[i].node->outputs().size())
      return InvalidArgument("function '{}': result {} is no tensor of its body", name, i);
  if (!std::ranges::all_of(control_results, owned))
    return InvalidArgument("function '{}': a control result is no node of its body", name);
  if (result_names.empty())
    for (size_t i = 0; i < results.size(); ++i) result_names.push_back(fmt::format("result_{}", i));
  if (result_names.size() != results.size())
    return InvalidArgument("function '{}' has {} results, but names for {}", name, results.size(), result_names.size());
  function->name = std::move(name);
  function->body = std::make_shared<const Graph>(std::move(body));  // moving keeps the nodes' addresses
  function->results = std::move(results);
  function->control_results = std::move(control_results);
  function->result_names = std::move(result_names);
  function->noinline = noinline;
  return std::shared_ptr<const Function>(std::move(function));
}

}  // namespace rivulet
