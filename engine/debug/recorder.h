// A recorder of one step's tensors: results of instructions, feeds, reads and the new values of variables. It copies
// each value before its memory is reused. Recording changes nothing: the same program runs in the same memory.
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
    kOutput,    // result of an instruction
    kInput,     // operand of an instruction: a feed, constant, variable's value, or value made inside a fused call
    kVariable,  // a variable's value after an instruction
  };
  std::string name;  // "dense/MatMul", "split:1"; inside a While or call "loop/dense/MatMul"; or a variable's name
  std::string node;  // the instruction that wrote or read it
  std::string op;
  Source source = Source::kOutput;
  TensorSpec spec;
  Tensor value;  // empty if it exceeded the memory limit
  TensorStatistics statistics;
  int64_t order = 0;   // index in recording order within this step
  int64_t times = 1;   // number of writes, for example one per loop iteration; the last value is kept
  double seconds = 0;  // duration of the instruction
};

struct RecorderOptions {
  size_t memory_bytes = size_t{1} << 30;  // limit for the values of one step
};

// For one thread.
class Recorder {
 public:
  using Options = RecorderOptions;
  explicit Recorder(Options options = {}) : options_(options) {}

  // Begins a step: drops the records of the previous one.
  void Clear();
  // Like those of RunObserver: before and after each instruction. End returns the records of this instruction.
  void Begin(const Program& program, int index, const KernelContext& context);
  std::vector<const TensorRecord*> End(const Program& program, int index, const KernelContext& context);
  void Failed();

  // Returns the records in recording order.
  const std::deque<TensorRecord>& records() const { return records_; }
  const TensorRecord* Find(std::string_view name) const;
  size_t kept_bytes() const { return kept_bytes_; }
  size_t depth() const { return open_.size(); }  // number of running instructions; above 1 inside a While or call
  // Returns the name of the running instruction, as in TensorRecord::node.
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

// Returns true for instructions that compute nothing: a copy to the caller's memory, or into a variable.
bool IsCopy(const Instruction& instruction);

}  // namespace rivulet
