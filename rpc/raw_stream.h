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
  // Begins the call, which goes on its way with its first message; where it cannot begin, that one fails, and Finish
  // says why. `context` outlives it.
  RawStream(grpc::GenericStub& stub, grpc::ClientContext* context, const char* method);
  // Each is false where the call has ended; Finish says how. Write awaits the write before it, and begins its own; all
  // else awaits that one, and itself.
  bool Write(const grpc::ByteBuffer& message);
  // The same of one that another follows at once: where it is small it waits for that one.
  bool WriteWithNext(const grpc::ByteBuffer& message);
  bool WriteLast(const grpc::ByteBuffer& message);
  bool Read(grpc::ByteBuffer* message);
  // Waits for the end. Once, and the last.
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
