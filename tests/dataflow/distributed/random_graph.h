// Random graphs over several tasks, for tests that compare placements.
#pragma once

#include <string>
#include <vector>

#include "dataflow/session/session.h"
#include "engine/base/philox.h"
#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "engine/variables/initializers.h"
#include "engine/variables/variables.h"

namespace rivulet::testing {

inline std::string BitsOf(const Tensor& tensor) {
  return std::string(reinterpret_cast<const char*>(tensor.data()), tensor.bytes());
}

// A random graph over `tasks` tasks, with variables, control edges, shapes and dropout-like random ops.
struct RandomGraph {
  RandomGraph(uint32_t seed, int tasks) {
    uint32_t index = 0;
    const auto draw = [&](uint32_t bound) { return Philox4x32({{seed, 78}}, {index++, 0, 0, 0})[0] % bound; };
    const auto scope = [&] {
      return draw(4) == 0 ? root
                          : root.WithDevice(fmt::format("/job:worker/task:{}", draw(static_cast<uint32_t>(tasks))));
    };
    std::vector<Output> pool;
    for (int i = 0; i < 3; ++i) {
      pool.push_back(scope().Placeholder(fmt::format("x{}", i), DType::kFloat32, Shape{kUnknownDim, 4}));
      Tensor value(DType::kFloat32, Shape{4, 4});
      for (float& v : value.flat<float>()) v = static_cast<float>(draw(2001)) / 1000.0f - 1.0f;
      feeds.emplace_back(fmt::format("x{}", i), value);
    }
    std::vector<Output> variables;
    for (int i = 0; i < 2; ++i)
      variables.push_back(Variable(scope(), fmt::format("v{}", i), Shape{4, 4}, GlorotUniform()));
    for (const Output& variable : variables) pool.push_back(variable);
    std::vector<Node*> effects;
    const auto pick = [&] { return pool[draw(static_cast<uint32_t>(pool.size()))]; };
    for (int i = 0; i < 25; ++i) {
      Scope here = scope();
      if (!effects.empty() && draw(4) == 0)
        here = here.WithControl({effects[draw(static_cast<uint32_t>(effects.size()))]});
      const std::string name = fmt::format("n{}", i);
      switch (draw(9)) {
        case 0:
          pool.push_back(here.Op("MatMul", {pick(), pick()}, {}, name));
          break;
        case 1:
          pool.push_back(here.Op("AddV2", {pick(), pick()}, {}, name));
          break;
        case 2: {
          const Output like = pick();
          const Output noise = here.Op("RandomUniform", {here.Op("Shape", {like})}, {{"dtype", DType::kFloat32}});
          pool.push_back(here.Op("Mul", {like, noise}, {}, name));
          break;
        }
        case 3:
          pool.push_back(here.Op("Tanh", {pick()}, {}, name));
          break;
        case 4:
          pool.push_back(here.Op("Reshape", {pick(), here.Op("Shape", {pick()})}, {}, name));
          break;
        case 5: {
          const Output handle = variables[draw(2)].node->input(0);
          effects.push_back(here.AddNode("AssignAddVariableOp", {handle, here.Op("Tanh", {pick()})}, {}, name));
          targets.push_back(name);
          break;
        }
        case 6: {
          const Output handle = variables[draw(2)].node->input(0);
          pool.push_back(here.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}}, name));
          break;
        }
        case 7: {
          const Output sum =
              here.Op("Sum", {pick(), root.Const(Tensor::Of<int32_t>({1}, {1}))}, {{"keep_dims", true}}, name);
          pool.push_back(here.Op("AddV2", {pick(), sum}));
          break;
        }
        default:
          effects.push_back(here.WithControl({pick().node}).AddNode("NoOp", {}, {}, name));
          targets.push_back(name);
      }
    }
    for (int i = 0; i < 5; ++i) fetches.push_back(pick().name());
    for (const Output& variable : variables) reads.push_back(variable.name());
  }

  Graph graph;
  Scope root{graph};
  Session::Feeds feeds;
  std::vector<std::string> fetches, targets, reads;
};

}  // namespace rivulet::testing
