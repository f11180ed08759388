// How tensors change devices: a partition puts one pair where an edge crosses (dataflow/placement/partition.h). Both
// are asynchronous ops of a session's run, which meet in its rendezvous (dataflow/placement/send_recv.cc).
#include "engine/graph/op.h"

namespace rivulet {
namespace {

constexpr const char* kNotForLoss =
    "gradients are made before a graph is cut for its devices; differentiate the graph as written";

Status SendShape(InferenceContext&) { return absl::OkStatus(); }

// The partitioner sets the tensor's known shape.
Status RecvShape(InferenceContext& c) {
  const auto known = c.attrs().find("_output_shapes");
  const auto* shapes = known == c.attrs().end() ? nullptr : std::get_if<std::vector<Shape>>(&known->second);
  c.set_output(0, shapes != nullptr && shapes->size() == 1 ? shapes->front() : Shape::UnknownRank());
  return absl::OkStatus();
}

RIVULET_OP("_Send")
    .Input("tensor: T")
    .Attr("T: type")
    .Attr("tensor_name: string")
    .Attr("send_device: string")
    .Attr("send_device_incarnation: int")
    .Attr("recv_device: string")
    .Attr("client_terminated: bool = false")
    .Stateful()
    .Shape(SendShape)
    .NotDifferentiable(kNotForLoss)
    .Doc("Sends the tensor from send_device to the _Recv of the same tensor_name on recv_device.");

RIVULET_OP("_Recv")
    .Output("tensor: tensor_type")
    .Attr("tensor_type: type")
    .Attr("tensor_name: string")
    .Attr("send_device: string")
    .Attr("send_device_incarnation: int")
    .Attr("recv_device: string")
    .Attr("client_terminated: bool = false")
    .Stateful()
    .Shape(RecvShape)
    .NotDifferentiable(kNotForLoss)
    .Doc("Receives on recv_device the tensor that the _Send of the same tensor_name sends from send_device.");

}  // namespace
}  // namespace rivulet
