// The AWS SDK for Go over a table, with the key in the environment and the endpoint in GATEHOUSE_ENDPOINT. What each operation does
// in detail is shown by the Python tests; here it is the SDK's own signing, marshalling, errors and waiters. Each step prints its
// name. After the last it waits for a line on standard input, asks once more, and prints the code of the error it then gets: by
// then its key has been revoked.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/awserr"
	"github.com/aws/aws-sdk-go/aws/session"
	"github.com/aws/aws-sdk-go/service/dynamodb"
)

const table = "go-table"

type item = map[string]*dynamodb.AttributeValue

func s(text string) *dynamodb.AttributeValue { return &dynamodb.AttributeValue{S: aws.String(text)} }
func n(text string) *dynamodb.AttributeValue { return &dynamodb.AttributeValue{N: aws.String(text)} }

func key(sk string) item { return item{"pk": s("user"), "sk": s(sk)} }

func must(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func expect(what string, got, wanted string) {
	if got != wanted {
		fmt.Printf("%s: %q instead of %q\n", what, got, wanted)
		os.Exit(1)
	}
}

func code(err error) string {
	if failure, ok := err.(awserr.Error); ok {
		return failure.Code()
	}
	return fmt.Sprint(err)
}

func create(db *dynamodb.DynamoDB) error {
	attribute := func(name string) *dynamodb.AttributeDefinition {
		return &dynamodb.AttributeDefinition{AttributeName: aws.String(name), AttributeType: aws.String("S")}
	}
	part := func(name, kind string) *dynamodb.KeySchemaElement {
		return &dynamodb.KeySchemaElement{AttributeName: aws.String(name), KeyType: aws.String(kind)}
	}
	_, err := db.CreateTable(&dynamodb.CreateTableInput{
		TableName:            aws.String(table),
		BillingMode:          aws.String("PAY_PER_REQUEST"),
		AttributeDefinitions: []*dynamodb.AttributeDefinition{attribute("pk"), attribute("sk")},
		KeySchema:            []*dynamodb.KeySchemaElement{part("pk", "HASH"), part("sk", "RANGE")},
	})
	must(err)
	return db.WaitUntilTableExists(&dynamodb.DescribeTableInput{TableName: aws.String(table)})
}

func put(db *dynamodb.DynamoDB) error {
	for _, sk := range []string{"a#1", "a#2", "b#1"} {
		row := key(sk)
		row["count"] = n("1")
		_, err := db.PutItem(&dynamodb.PutItemInput{TableName: aws.String(table), Item: row})
		must(err)
	}
	_, err := db.PutItem(&dynamodb.PutItemInput{
		TableName: aws.String(table), Item: key("a#1"), ConditionExpression: aws.String("attribute_not_exists(pk)"),
	})
	expect("a second put", code(err), dynamodb.ErrCodeConditionalCheckFailedException)
	return nil
}

func get(db *dynamodb.DynamoDB) error {
	found, err := db.GetItem(&dynamodb.GetItemInput{TableName: aws.String(table), Key: key("a#1"), ConsistentRead: aws.Bool(true)})
	must(err)
	expect("count", aws.StringValue(found.Item["count"].N), "1")
	return nil
}

func update(db *dynamodb.DynamoDB) error {
	changed, err := db.UpdateItem(&dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: key("a#1"), UpdateExpression: aws.String("ADD #c :one"),
		ExpressionAttributeNames:  map[string]*string{"#c": aws.String("count")},
		ExpressionAttributeValues: item{":one": n("1")}, ReturnValues: aws.String("UPDATED_NEW"),
	})
	must(err)
	expect("count", aws.StringValue(changed.Attributes["count"].N), "2")
	return nil
}

func query(db *dynamodb.DynamoDB) error {
	pages := 0
	err := db.QueryPages(&dynamodb.QueryInput{
		TableName: aws.String(table), Limit: aws.Int64(1),
		KeyConditionExpression:    aws.String("pk = :p AND begins_with(sk, :s)"),
		ExpressionAttributeValues: item{":p": s("user"), ":s": s("a#")},
	}, func(page *dynamodb.QueryOutput, _ bool) bool {
		pages += len(page.Items)
		return true
	})
	must(err)
	expect("rows", fmt.Sprint(pages), "2")
	return nil
}

func transact(db *dynamodb.DynamoDB) error {
	check := &dynamodb.TransactWriteItem{ConditionCheck: &dynamodb.ConditionCheck{
		TableName: aws.String(table), Key: key("b#1"), ConditionExpression: aws.String("attribute_exists(pk)"),
	}}
	add := &dynamodb.TransactWriteItem{Put: &dynamodb.Put{TableName: aws.String(table), Item: key("c#1")}}
	_, err := db.TransactWriteItems(&dynamodb.TransactWriteItemsInput{TransactItems: []*dynamodb.TransactWriteItem{check, add}})
	must(err)
	check.ConditionCheck.ConditionExpression = aws.String("attribute_not_exists(pk)")
	_, err = db.TransactWriteItems(&dynamodb.TransactWriteItemsInput{TransactItems: []*dynamodb.TransactWriteItem{check, add}})
	canceled, ok := err.(*dynamodb.TransactionCanceledException)
	if !ok {
		return fmt.Errorf("not canceled: %v", err)
	}
	expect("reason", aws.StringValue(canceled.CancellationReasons[0].Code), "ConditionalCheckFailed")
	return nil
}

func main() {
	db := dynamodb.New(session.Must(session.NewSession(&aws.Config{
		Endpoint: aws.String(os.Getenv("GATEHOUSE_ENDPOINT")), MaxRetries: aws.Int(0),
	})))
	steps := []struct {
		name string
		run  func(*dynamodb.DynamoDB) error
	}{{"create", create}, {"put", put}, {"get", get}, {"update", update}, {"query", query}, {"transact", transact}}
	for _, step := range steps {
		must(step.run(db))
		fmt.Println(step.name)
	}
	bufio.NewReader(os.Stdin).ReadString('\n')
	_, err := db.GetItem(&dynamodb.GetItemInput{TableName: aws.String(table), Key: key("a#1")})
	fmt.Println(code(err))
}
