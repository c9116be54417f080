# Allocates from methods, blocks, procs, fibers, threads, rescues, evaluated code and callbacks from
# C, and writes the stack that Ruby reports for each allocation. The test knows the marked line.
# Arguments: rounds, the file to write.
$rounds = Integer(ARGV[0])
$stacks = Hash.new(0)
$kept = []
# Methods in C, which have the line of their caller; the native frames show them.
IN_C = %w[times each map new sort call eval resume next each_pair gsub]

def check
  frames = caller_locations(1).reverse.reject { |at| IN_C.include?(at.base_label) }
  frames = frames.map { |at| [at.label, at.path, at.lineno] }
  $stacks[frames.join(";")] += 1
  $kept << ("x" * 100_000) # the line of the block
end

def recursive(depth)
  depth == 0 ? check : recursive(depth - 1)
end

def with_block
  yield
ensure
  check
end

class Thing
  def initialize = check
  def method_missing(name) = check
  def respond_to_missing?(name, all = false) = true
  def <=>(other)
    check
    0
  end
  define_method(:defined) { check }
end

def round
  check
  recursive(12)
  with_block { check }
  [1, 2].each { |_| [3].map { check } }
  begin
    raise "error"
  rescue StandardError
    check
  end
  Thing.new.missing
  [Thing.new, Thing.new].sort
  Thing.new.defined
  proc { check }.call
  lambda { check }.()
  eval("check\ncheck", binding, "evaluated", 7)
  fiber = Fiber.new { 2.times { check; Fiber.yield } }
  2.times { fiber.resume }
  Thread.new { check }.join
  Enumerator.new { |out| check; out << 1 }.next
  { 1 => 2 }.each_pair { |_, _| check }
  "a".gsub(/a/) { check; "b" }
end

$rounds.times { round }
File.write(ARGV[1], $stacks.map { |stack, count| "#{count} #{stack}\n" }.join)
