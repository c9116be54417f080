// Holds a hundred buffers of 100000 bytes. The test knows the functions and the number.
const kept = [];
function holdBuffers(count) {
  for (let i = 0; i < count; i++) kept.push(Buffer.allocUnsafeSlow(100000));
}
function middle() {
  holdBuffers(100);
}
middle();
