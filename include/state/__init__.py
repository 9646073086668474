"""Operations on the state of a stream: which there are, and the request of one."""
