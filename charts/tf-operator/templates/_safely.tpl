{{/*
How a monitor reads protected metrics. Takes the root context and the monitor's kind: only a ServiceMonitor can have
Prometheus show the token of its own pod.
*/}}
{{- define "tf-operator.safely" -}}
{{- $root := index . 0 -}}
{{- with $root.Values.metrics.secure -}}
scheme: https
{{- if .tokenSecret }}
authorization:
  credentials:
    name: {{ .tokenSecret | quote }}
    key: {{ .tokenKey | quote }}
{{- else if eq (index $ 1) "ServiceMonitor" }}
bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
{{- end }}
tlsConfig:
  {{- if .certificateSecret }}
  serverName: {{ .serverName | default (printf "%s-metrics.%s.svc" (include "tf-operator.fullname" $root) $root.Release.Namespace) }}
  ca:
    secret:
      name: {{ .certificateSecret | quote }}
      key: ca.crt
  {{- else }}
  # The operator's own certificate: it keeps others from listening, and proves nothing.
  insecureSkipVerify: true
  {{- end }}
{{- end -}}
{{- end -}}
