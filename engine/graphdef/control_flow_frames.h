// The frame of each node of a graph with version-1 loops. The graph does not store frames; they follow from paths: an
// Enter leads into a frame, an Exit out of it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/graphdef/control_flow_nodes.h"

namespace rivulet {

class ControlFlowFrames {
 public:
  struct Frame {
    int parent = -1;
    int depth = 0;
    std::string name;
  };

  // `nodes` must outlive it.
  explicit ControlFlowFrames(const ControlFlowNodes& nodes) : nodes_(nodes) {}

  // Finds all frames. UNIMPLEMENTED: loops nested deeper than kDeepestControlFlow. Frame 0 is that of the whole graph.
  Status Find();

  size_t count() const { return frames_.size(); }
  const Frame& frame(int i) const { return frames_[static_cast<size_t>(i)]; }
  // Returns the frame of a node's inputs; -1 while unknown.
  int of(int node) const { return frame_[static_cast<size_t>(node)]; }
  // Returns the frame of its outputs. Two Enters with one frame name share a frame only within the same parent.
  int after(int node);
  // Returns true if a node is in `frame`, or in a frame inside it.
  bool Within(int node, int frame) const;

  // Adds the frame of a node that was added or moved.
  void Add(int frame) { frame_.push_back(frame); }
  void Move(int node, int frame) { frame_[static_cast<size_t>(node)] = frame; }
  int size() const { return static_cast<int>(frame_.size()); }

 private:
  void DropForsakenFrames();

  const ControlFlowNodes& nodes_;
  std::vector<Frame> frames_;
  std::map<std::pair<int, std::string>, int> index_;
  std::vector<int> frame_;  // by node index
};

}  // namespace rivulet
