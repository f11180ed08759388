// One bidirectional call with gRPC's raw buffers as messages, one operation at a time. It corresponds to gRPC's
// synchronous streams of protobuf messages, but sends one message while the caller makes the next. Internal to this
// folder.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>

namespace rivulet {

class RawStream {
 public:
  // Begins the call, which is sent with its first message. If it cannot begin, that message fails, and Finish has the
  // reason. `context` outlives it.
  RawStream(grpc::GenericStub& stub, grpc::ClientContext* context, const char* method);
  // Each returns false if the call has ended; Finish has the status. Write waits for the previous write and starts its
  // own; all other calls wait for that write, and for their own end.
  bool Write(const grpc::ByteBuffer& message);
  // The same for a message that another one follows at once: a small message is sent together with that one.
  bool WriteWithNext(const grpc::ByteBuffer& message);
  bool WriteLast(const grpc::ByteBuffer& message);
  bool Read(grpc::ByteBuffer* message);
  // Waits for the end and gives its status. Call it once, as the last call.
  grpc::Status Finish();

 private:
  bool Write(const grpc::ByteBuffer& message, grpc::WriteOptions options);
  bool Await();
  bool AwaitWrite();

  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool writing_ = false;
};

}  // namespace rivulet
