// Summary of a plan for the data's owner: which columns it reads, what it computes, how often, and what leaves the
// client.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "federated/plan/plan.h"

namespace rivulet {

// Ops by type: what a graph from somebody else can do is what its ops can. Those of the functions that it holds too.
std::set<std::string, std::less<>> OpsOf(const Graph& graph);
// Of everything that a plan has clients run. Of an external plan: none.
std::set<std::string, std::less<>> OpsOf(const Plan& plan);
// Over all passes of a training task together: how often each example may be looked at.
int64_t EpochsOf(const Plan& plan);

// "" where nobody signed. `good`: the signature is right.
struct PlanAuthor {
  std::string text;  // certificates/author.h
  bool good = false;
};
PlanAuthor AuthorOf(const Plan& plan);

// What happens, by what it is called, in the order of a task: "reads", "computes", "keeps", "sends".
std::vector<std::pair<std::string, std::string>> TellPlan(const Plan& plan);

}  // namespace rivulet
