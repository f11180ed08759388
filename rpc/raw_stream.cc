#include "rpc/raw_stream.h"

#include <utility>

namespace rivulet {

// A separate send is a TLS record, a packet and a system call at each end, and wakes the other end, which is most of a
// short message's cost. So the call's head waits for its first message, and a small message for the next one; gRPC
// reports a waiting message as sent at once.
RawStream::RawStream(grpc::GenericStub& stub, grpc::ClientContext* context, const char* method)
    : call_(stub.PrepareCall(context, method, &queue_)) {
  context->set_initial_metadata_corked(true);
  call_->StartCall(nullptr);
}

bool RawStream::Write(const grpc::ByteBuffer& message, grpc::WriteOptions options) {
  if (!AwaitWrite()) return false;
  call_->Write(message, options, this);
  return writing_ = true;
}

bool RawStream::Write(const grpc::ByteBuffer& message) { return Write(message, grpc::WriteOptions()); }

bool RawStream::WriteWithNext(const grpc::ByteBuffer& message) {
  return Write(message, grpc::WriteOptions().set_buffer_hint());
}

bool RawStream::WriteLast(const grpc::ByteBuffer& message) {
  if (!AwaitWrite()) return false;
  call_->WriteLast(message, grpc::WriteOptions(), this);
  return Await();
}

bool RawStream::Read(grpc::ByteBuffer* message) {
  if (!AwaitWrite()) return false;
  call_->Read(message, this);
  return Await();
}

grpc::Status RawStream::Finish() {
  (void)AwaitWrite();
  grpc::Status status;
  call_->Finish(&status, this);
  (void)Await();
  return status;
}

bool RawStream::AwaitWrite() { return !std::exchange(writing_, false) || Await(); }

bool RawStream::Await() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

}  // namespace rivulet
