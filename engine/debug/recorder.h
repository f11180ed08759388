// A recorder of one step's tensors: results of instructions, feeds, reads and the new values of variables. It copies
// each before its memory is reused. Recording changes nothing: the same program runs over the same memory.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/debug/statistics.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"

namespace rivulet {

struct TensorRecord {
  enum class Source {
    kOutput,    // an instruction made it
    kInput,     // an instruction read it: fed, a constant, a variable's value, or made inside of a fused call
    kVariable,  // what an instruction left in a variable
  };
  std::string name;  // "dense/MatMul", "split:1"; inside of a While or call: "loop/dense/MatMul"; or a variable's name
  std::string node;  // the instruction that made or read it
  std::string op;
  Source source = Source::kOutput;
  TensorSpec spec;
  Tensor value;  // empty when it was beyond the bound on memory
  TensorStatistics statistics;
  int64_t order = 0;   // of recording, in this step
  int64_t times = 1;   // how often it was made: in a loop once per turn; the last is kept
  double seconds = 0;  // that the instruction took
};

struct RecorderOptions {
  size_t memory_bytes = size_t{1} << 30;  // of the values of one step
};

// Of one thread.
class Recorder {
 public:
  using Options = RecorderOptions;
  explicit Recorder(Options options = {}) : options_(options) {}

  // A step begins: what the one before left is forgotten.
  void Clear();
  // As RunObserver: before and after each instruction. End returns what it recorded of this instruction.
  void Begin(const Program& program, int index, const KernelContext& context);
  std::vector<const TensorRecord*> End(const Program& program, int index, const KernelContext& context);
  void Failed();

  // In the order in which they were recorded.
  const std::deque<TensorRecord>& records() const { return records_; }
  const TensorRecord* Find(std::string_view name) const;
  size_t kept_bytes() const { return kept_bytes_; }
  size_t depth() const { return open_.size(); }  // instructions that run now: more than 1 inside of a While or call
  // Name of what runs now, as in TensorRecord::node.
  std::string Qualified(std::string_view name) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Open {
    std::string node;
    Clock::time_point begun;
  };
  const TensorRecord* Record(TensorRecord record, const std::byte* data);

  const Options options_;
  std::deque<TensorRecord> records_;
  std::unordered_map<std::string, size_t> by_name_;
  std::vector<Open> open_;
  size_t kept_bytes_ = 0;
};

// Instructions that compute nothing: a copy to the caller, or into a variable.
bool IsCopy(const Instruction& instruction);

}  // namespace rivulet
