#include "engine/graphdef/control_flow_frames.h"

#include <algorithm>
#include <queue>

namespace rivulet {
namespace {

std::string FrameName(const proto::NodeDef& enter) {
  const auto found = enter.attr().find("frame_name");
  return found == enter.attr().end() ? "" : found->second.s();
}

}  // namespace

int ControlFlowFrames::after(int node) {
  const int frame = of(node);
  if (frame < 0) return -1;
  const proto::NodeDef& message = nodes_.at(node);
  if (message.op() == "Exit") return std::max(frames_[static_cast<size_t>(frame)].parent, 0);
  if (message.op() != "Enter") return frame;
  const std::string name = FrameName(message);
  const auto [found, inserted] = index_.try_emplace({frame, name}, static_cast<int>(frames_.size()));
  if (inserted) frames_.push_back({frame, frames_[static_cast<size_t>(frame)].depth + 1, name});
  return found->second;
}

Status ControlFlowFrames::Find() {
  const size_t count = static_cast<size_t>(nodes_.size());
  frames_ = {{-1, 0, ""}};
  index_.clear();
  frame_.assign(count, -1);
  std::vector<std::vector<int>> users(count);
  std::queue<int> work;
  for (int i = 0; i < nodes_.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, nodes_.Inputs(i));
    for (const NodeRef& input : inputs) users[static_cast<size_t>(nodes_.Find(input.node))].push_back(i);
    if (!inputs.empty()) continue;
    frame_[static_cast<size_t>(i)] = 0;
    work.push(i);
  }
  // A node is in the deepest frame that an input comes from: a constant without inputs may serve any frame.
  while (!work.empty()) {
    const int i = work.front();
    work.pop();
    const int now = after(i);
    const int depth = frames_[static_cast<size_t>(now)].depth;
    if (depth > kDeepestControlFlow) return Unimplemented("loops are nested more than {} deep", kDeepestControlFlow);
    for (const int user : users[static_cast<size_t>(i)]) {
      int& known = frame_[static_cast<size_t>(user)];
      if (known >= 0 && frames_[static_cast<size_t>(known)].depth >= depth) continue;
      known = now;
      work.push(user);
    }
  }
  DropForsakenFrames();
  return absl::OkStatus();
}

// A node that is first reached from outside, by a constant, and then from within a loop leaves behind the frames that
// it would have entered from there.
void ControlFlowFrames::DropForsakenFrames() {
  std::vector<bool> used(frames_.size());
  used[0] = true;
  const auto use = [&](int frame) {
    for (; frame >= 0 && !used[static_cast<size_t>(frame)]; frame = frames_[static_cast<size_t>(frame)].parent)
      used[static_cast<size_t>(frame)] = true;
  };
  for (int i = 0; i < size(); ++i) {
    use(of(i));
    if (nodes_.at(i).op() == "Enter" && of(i) >= 0) use(index_.at({of(i), FrameName(nodes_.at(i))}));
  }
  std::vector<Frame> kept;
  std::vector<int> place(frames_.size(), -1);
  for (size_t i = 0; i < frames_.size(); ++i) {
    if (!used[i]) continue;
    place[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(frames_[i]));  // after its parent, which was found first
    if (kept.back().parent >= 0) kept.back().parent = place[static_cast<size_t>(kept.back().parent)];
  }
  frames_ = std::move(kept);
  index_.clear();
  for (size_t i = 1; i < frames_.size(); ++i) index_[{frames_[i].parent, frames_[i].name}] = static_cast<int>(i);
  for (int& frame : frame_)
    if (frame >= 0) frame = place[static_cast<size_t>(frame)];
}

bool ControlFlowFrames::Within(int node, int frame) const {
  for (int at = of(node); at >= 0; at = frames_[static_cast<size_t>(at)].parent)
    if (at == frame) return true;
  return false;
}

}  // namespace rivulet
