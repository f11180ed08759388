// Summary of a plan for the data's owner: the columns it reads, its computations and their number, and the data that
// leave the client.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "federated/plan/plan.h"

namespace rivulet {

// Types of all ops in a graph and its functions: they bound the effects of an untrusted graph.
std::set<std::string, std::less<>> OpsOf(const Graph& graph);
// Types of all ops that a plan has clients run; an external plan has none.
std::set<std::string, std::less<>> OpsOf(const Plan& plan);
// Number of times that a training task may read each example, over all passes.
int64_t EpochsOf(const Plan& plan);

// Author of a plan; "": unsigned. `good`: the signature is valid.
struct PlanAuthor {
  std::string text;  // certificates/author.h
  bool good = false;
};
PlanAuthor AuthorOf(const Plan& plan);

// Name and description of each stage in the order of a task: "reads", "computes", "keeps", "sends".
std::vector<std::pair<std::string, std::string>> TellPlan(const Plan& plan);

}  // namespace rivulet
