package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// errLineTooLong is returned by readLine for a line over its limit.
var errLineTooLong = errors.New("line too long")

// readLine reads up to and including a newline and returns what precedes it.
// It never holds more than limit bytes. A line cut off by the end of the
// stream is io.ErrUnexpectedEOF; an end before any byte is io.EOF.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errLineTooLong
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// encodeLine marshals v as one line of at most limit bytes.
func encodeLine(v any, limit int) ([]byte, error) {
	line, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	line = append(line, '\n')
	if len(line) > limit {
		return nil, errLineTooLong
	}
	return line, nil
}

// encodeReply is encodeLine for a reply, whose result is one line of JSON already
// and is not gone through again.
func encodeReply(r Reply, limit int) ([]byte, error) {
	result := r.Result
	r.Result = nil
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(result) > 0 {
		line = append(line[:len(line)-1], `,"result":`...)
		line = append(append(line, result...), '}')
	}
	if line = append(line, '\n'); len(line) > limit {
		return nil, errLineTooLong
	}
	return line, nil
}

// decodeRequest parses one line of a client.
func decodeRequest(line []byte) (Request, error) {
	var req Request
	if err := strictJSON(line, &req); err != nil {
		return Request{}, Errorf(CodeBadRequest, "malformed request: %v", err)
	}
	if req.V != Version {
		return Request{}, Errorf(CodeVersion, "protocol version %d asked for, this server speaks %d", req.V, Version)
	}
	if req.Op == "" {
		return Request{}, Errorf(CodeBadRequest, "request names no op")
	}
	return req, nil
}

// strictJSON decodes exactly one value and refuses unknown fields.
func strictJSON(data []byte, into any) error {
	if len(data) == 0 {
		return errors.New("missing")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("something follows the value")
	}
	return nil
}
